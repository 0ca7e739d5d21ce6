"""Looking at what became of an action."""

from __future__ import annotations

from typing import Any

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.case import Answer, Case
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken

S = ResultStatus
_LISTED = (S.ACCEPTED, S.OBSERVING, S.COMPLETED, S.FAILED, S.UNKNOWN)
_PENDING = (S.ACCEPTED, S.OBSERVING, S.UNKNOWN)
_ENDS = {Knob.SETTLE: S.COMPLETED, Knob.FAIL: S.FAILED}
_LOOKS = 3


async def observe_has_no_effect(stage: Stage) -> str:
    """While the action is under way."""
    case = await stage.case()
    await case.acted()
    before = await case.all_effects()
    for _ in range(_LOOKS):
        await case.observe()
    if (after := await case.all_effects()) != before:
        raise Broken(f"{_LOOKS} looks left {after - before} effects in the provider's book")
    return f"{_LOOKS} looks, no effect"


async def same_state_same_answer(stage: Stage) -> str:
    """While the action is under way: status, code, refs and artifacts agree. Evidence may tell the time."""
    case = await stage.case()
    await case.acted()
    told = [_told(await case.observe()) for _ in range(_LOOKS)]
    differing = [other for other in told[1:] if other != told[0]]
    if differing:
        raise Broken(f"the provider stood still, and observe answered {told[0]}, then {differing[0]}")
    return f"{_LOOKS} looks: {case.answers[-1]}"


async def never_back_from_the_end(stage: Stage) -> str:
    """For every end that the bench can bring about."""
    seen: list[str] = []
    for knob, end in _ENDS.items():
        if knob is Knob.FAIL and knob not in stage.bench.knobs:
            seen.append("FAILED was not tried: the bench cannot bring it about")
            continue
        case = await stage.case()
        await case.acted()
        await case.turn(knob)
        reached = await case.observe_until(end)
        if reached.status is not end:
            raise Broken(f"settled by {knob}, and observe does not come to {end}: {reached}")
        for _ in range(_LOOKS):
            await _still(case, end)
        await case.turn(knob)
        await _still(case, end)
        seen.append(f"{end} for {_LOOKS + 1} more looks")
    return "; ".join(seen)


async def answers_are_listed(stage: Stage) -> str:
    """Under way, by both methods."""
    case = await stage.case()
    await case.acted()
    answers = [await case.observe(), await case.recover()]
    for answer in answers:
        if answer.status not in _LISTED:
            raise Broken(f"{answer.method} answered {answer}")
    return "; ".join(f"{answer.method}: {answer}" for answer in answers)


async def odd_status_stays_pending(stage: Stage) -> str:
    """By both methods. Whoever is done when the action is on record may say COMPLETED, never FAILED."""
    case = await stage.case()
    await case.acted()
    await case.turn(Knob.ODD_STATUS)
    declared = stage.bench.declared.done_when_on_record
    allowed = (*_PENDING, S.COMPLETED) if declared else _PENDING
    answers = [await case.observe(), await case.recover()]
    for answer in answers:
        if answer.status not in allowed:
            raise Broken(f"for a status that nobody knows {answer.method} answered {answer}")
    shown = "; ".join(f"{answer.method}: {answer}" for answer in answers)
    return f"{shown} (declared: done when on record)" if declared else shown


async def _still(case: Case, end: ResultStatus) -> None:
    again = await case.observe()
    if again.status is not end:
        raise Broken(f"observe said {end}, and then {again}")


def _told(answer: Answer) -> tuple[Any, ...]:
    if answer.result is None:
        return (type(answer.error).__name__,)
    result = answer.result
    return result.status.value, result.error_code, result.provider_refs, result.artifacts
