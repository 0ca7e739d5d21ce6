"""Finding out what became of an attempt whose answer was lost."""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.case import Case
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken, NotJudged

S = ResultStatus
_LOOKS = 3
_FOUND = (S.ACCEPTED, S.OBSERVING, S.COMPLETED)


async def sends_nothing_new(stage: Stage) -> str:
    """After a request that was lost before it was executed: it could still arrive."""
    stage.needs_an_effect()
    case = await _lost(stage, Knob.LOSE_REQUEST)
    for _ in range(_LOOKS):
        await case.recover()
    effects = await case.effects()
    if effects > 1 or (effects and not stage.bench.declared.resends_signed_bytes):
        raise Broken(f"the request was lost before it acted, and {_LOOKS} recoveries made {effects} effects")
    return "sent the same signed bytes again, as declared: one effect" if effects else f"{_LOOKS} looks, no effect"


async def absence_proves_nothing(stage: Stage) -> str:
    """After a request that was lost before it was executed."""
    stage.needs_an_effect()
    case = await _lost(stage, Knob.LOSE_REQUEST)
    told: list[str] = []
    for _ in range(_LOOKS):
        answer = await case.recover()
        told.append(str(answer))
        if answer.status is S.FAILED and not stage.bench.declared.negative_proof:
            raise Broken(f"nothing is on record, no negative proof is declared, and recover answered {answer}")
        if answer.status in _FOUND and not await case.effects():
            raise Broken(f"nothing was executed, and recover answered {answer}")
    return f"{_LOOKS} looks: {', '.join(dict.fromkeys(told))}"


async def finds_what_was_executed(stage: Stage) -> str:
    """After a reply that was lost; what the provider shows late is settled first, as far as the bench can."""
    if not stage.bench.declared.acts:
        case = await stage.case()
        await case.acted()
        return await _found(case)
    case = await _lost(stage, Knob.LOSE_REPLY)
    if not await case.effects():
        raise NotJudged("nothing was executed before the reply was lost: the bench or submit kept it back")
    return await _found(case)


async def _found(case: Case) -> str:
    answer = await case.recover()
    for look in range(case.limits.looks):
        if answer.status in _FOUND:
            return f"{answer} after {look + 1} looks"
        if answer.status is S.FAILED:
            raise Broken(f"it was executed, and recover answered {answer}")
        if case.bench.declared.hands_over and answer.result is not None and answer.result.evidence.get("operator"):
            return f"{answer}, for a person, as declared, after {look + 1} looks"
        if look == _LOOKS and Knob.SETTLE in case.bench.knobs:
            await case.turn(Knob.SETTLE)
        await asyncio.sleep(case.limits.between_looks_seconds)
        answer = await case.recover()
    raise Broken(f"it was executed, and after {case.limits.looks} looks recover answers {answer}")


async def _lost(stage: Stage, knob: Knob) -> Case:
    case = await stage.case()
    await case.ready()
    await case.turn(knob)
    await case.submit()
    await stage.bench.calm()
    return case
