"""The one call that acts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from qtg_dagster.domain.contract import PreparedAction, ResultStatus
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.case import Case
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken, Exempt

_ANSWERS = (
    ResultStatus.NOT_SENT,
    ResultStatus.REJECTED,
    ResultStatus.ACCEPTED,
    ResultStatus.COMPLETED,
    ResultStatus.UNKNOWN,
)
_RECOVERIES = 3


async def acts_once(stage: Stage) -> str:
    """Well behaved, then with the reply lost and recovery asked several times."""
    wanted = 1 if stage.bench.declared.acts else 0
    case = await stage.case()
    await case.ready()
    before = await case.all_effects()
    await case.submit()
    await _count(case, before, wanted, "after one submit")
    if not stage.bench.declared.acts:
        return "one submit: no effect, as declared"
    case = await stage.case()
    await case.ready()
    before = await case.all_effects()
    await case.turn(Knob.LOSE_REPLY)
    await case.submit()
    await stage.bench.calm()
    await _count(case, before, 1, "after a submit whose reply was lost")
    for _ in range(_RECOVERIES):
        await case.recover()
    await _count(case, before, 1, f"after its reply was lost and recover was asked {_RECOVERIES} times")
    return f"one effect each: plainly, and with its reply lost and {_RECOVERIES} recoveries"


async def answers_are_listed(stage: Stage) -> str:
    """The answer of a plain submit, and of one with nobody there."""
    case = await stage.case()
    await case.ready()
    plain = await case.submit()
    if plain.status not in _ANSWERS:
        raise Broken(f"submit answered {plain}")
    if Knob.AWAY not in stage.bench.knobs:
        return f"{plain}; an outage was not tried: the bench has no knob {Knob.AWAY}"
    case = await stage.case()
    await case.ready()
    await case.turn(Knob.AWAY)
    away = await case.submit()
    if away.status not in _ANSWERS:
        raise Broken(f"with the dependency away submit answered {away}")
    return f"{plain}; with the dependency away: {away}"


async def lost_reply_is_unknown(stage: Stage) -> str:
    """The reply lost after the effect, and the request lost before it: from here both look the same."""
    stage.needs_an_effect()
    seen: list[str] = []
    for knob in (Knob.LOSE_REPLY, Knob.LOSE_REQUEST):
        case = await stage.case()
        await case.ready()
        await case.turn(knob)
        answer = await case.submit()
        if answer.status is not ResultStatus.UNKNOWN:
            raise Broken(f"{knob}: submit answered {answer}, with {await case.effects()} effects in the book")
        seen.append(f"{knob}: {answer}")
    return "; ".join(seen)


async def expired_is_not_sent(stage: Stage) -> str:
    """An action that was good an hour ago."""
    stage.needs_an_effect()
    case = await stage.case()
    action = await case.ready()
    if action.expires_at is None:
        raise Exempt("its actions never expire")
    return await _must_not_act(case, action.model_copy(update={"expires_at": datetime.now(UTC) - timedelta(hours=1)}))


async def changed_is_not_sent(stage: Stage) -> str:
    """A payload with one character more than was hashed."""
    stage.needs_an_effect()
    case = await stage.case()
    action = await case.ready()
    return await _must_not_act(case, action.model_copy(update={"payload": action.payload + " "}))


async def _must_not_act(case: Case, action: PreparedAction) -> str:
    case.remember(action)
    before = await case.all_effects()
    answer = await case.submit(action)
    await _count(case, before, 0, f"after submit answered {answer}")
    if answer.status in (ResultStatus.ACCEPTED, ResultStatus.COMPLETED):
        raise Broken(f"submit answered {answer} for what it must not send")
    return f"{answer}, no effect"


async def _count(case: Case, before: int, wanted: int, when: str) -> None:
    own, added = await case.effects(), await case.all_effects() - before
    if own != wanted or added != wanted:
        raise Broken(f"{when} the provider has {own} effects of this order and {added} new ones in all, not {wanted}")
