"""One walk past everything an executor can be brought to say, for the clauses that hold of every answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from qtg_dagster.domain.contract import HealthReport, PreparedAction, ResultStatus
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.case import Answer, Case
from qtg_dagster.executors.conformance.stage import Stage

_ON_THE_WAY = (Knob.LOSE_REPLY, Knob.LOSE_REQUEST, Knob.ODD_STATUS, Knob.FAIL)


@dataclass(frozen=True, slots=True)
class Heard:
    """All that was said."""

    answers: tuple[Answer, ...]
    actions: tuple[PreparedAction, ...]
    health: tuple[HealthReport | Exception | None, ...]


async def walk(stage: Stage) -> Heard:
    """Plain and settled, under each knob the bench has, away, expired, changed and without a config."""
    cases = [await _settled(stage)]
    cases += [await _under(stage, knob) for knob in _ON_THE_WAY if knob in stage.bench.knobs]
    cases.append(await away(stage))
    cases += [await expired(stage), await changed(stage), await without_config(stage)]
    answers = tuple(answer for case in cases for answer in case.answers)
    return Heard(answers, tuple(action for case in cases for action in case.actions), await _health(stage))


async def away(stage: Stage) -> Case:
    """Every method that may ask the provider, with nobody there."""
    case = await stage.case()
    await case.ready()
    await case.turn(Knob.AWAY)
    for ask in (case.preflight, case.submit, case.observe, case.recover):
        await ask()
    await stage.bench.calm()
    return case


async def expired(stage: Stage) -> Case:
    """An action that was good an hour ago; one that never expires is left as it is."""
    case = await stage.case()
    action = await case.ready()
    if action.expires_at is not None:
        await _ask_about(case, action.model_copy(update={"expires_at": datetime.now(UTC) - timedelta(hours=1)}))
    return case


async def changed(stage: Stage) -> Case:
    """An action whose payload is no longer what was hashed and signed."""
    case = await stage.case()
    action = await case.ready()
    await _ask_about(case, action.model_copy(update={"payload": action.payload + " "}))
    return case


async def without_config(stage: Stage) -> Case:
    """A node whose config is empty, as a broken template leaves it."""
    case = await stage.case()
    action = await case.ready()
    case.context = case.context.model_copy(update={"node_config": {}})
    await _ask_about(case, action)
    return case


def only_of(answers: Sequence[Answer], *statuses: ResultStatus) -> tuple[Answer, ...]:
    """The results of these statuses."""
    return tuple(answer for answer in answers if answer.result is not None and answer.status in statuses)


async def _ask_about(case: Case, action: PreparedAction) -> None:
    case.remember(action)
    await case.submit(action)
    await case.observe()
    await case.recover()


async def _settled(stage: Stage) -> Case:
    case = await stage.case()
    await case.acted()
    await case.observe()
    await case.turn(Knob.SETTLE)
    await case.observe_until(ResultStatus.COMPLETED)
    await case.recover()
    return case


async def _under(stage: Stage, knob: Knob) -> Case:
    case = await stage.case()
    await case.ready()
    before = knob in (Knob.LOSE_REPLY, Knob.LOSE_REQUEST)
    if before:
        await case.turn(knob)
    await case.submit()
    if not before:
        await case.turn(knob)
    await case.observe()
    await case.recover()
    return case


async def _health(stage: Stage) -> tuple[HealthReport | Exception | None, ...]:
    case = await stage.case()
    told = [await _one_health(stage)]
    await case.turn(Knob.AWAY)
    told.append(await _one_health(stage))
    await stage.bench.calm()
    return tuple(told)


async def _one_health(stage: Stage) -> HealthReport | Exception | None:
    try:
        return await stage.bench.executor.health()
    except Exception as error:  # noqa: BLE001 - what it says is what is wanted
        return error
