"""Finding out what became of actions whose answer was lost. Absence is not evidence."""

from __future__ import annotations

import asyncio

import structlog

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.work import RECOVERY_ARMS, Claim, Move, Work
from qtg_dagster.engine.context import build_execution_context
from qtg_dagster.engine.outcomes import move_for_error, move_for_recover
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner
from qtg_dagster.executors.contract import DEFAULT_SUBMIT_GRACE_SECONDS, Adopts, Executor, submit_grace
from qtg_dagster.faults import FaultPoint, fault_point

log = structlog.get_logger("qtg.engine")


async def recover_unknown_nodes(engine: Engine, runner: Runner, batch: int | None = None) -> int:
    """One pass over the four arms; returns how many nodes were looked at."""
    claims = await claim_unknown_nodes(engine, runner, batch)
    await asyncio.gather(*(recover_node(engine, work) for work in await engine.store.load_works(claims)))
    return len(claims)


async def claim_unknown_nodes(engine: Engine, runner: Runner, batch: int | None = None) -> list[Claim]:
    """Claim for every arm its share of the batch, `max(1, batch // 4)` each."""
    share = max(1, (batch or engine.settings.node_recovery_batch_size) // len(RECOVERY_ARMS))
    graces = {key: submit_grace(executor) for key, executor in engine.executors.items()}
    claims: list[Claim] = []
    for arm in RECOVERY_ARMS:
        claims += await engine.store.claim_recoverable(
            runner, arm, share, graces=graces, default_grace=DEFAULT_SUBMIT_GRACE_SECONDS
        )
    if claims:
        fault_point(FaultPoint.RECOVER_CLAIM)
    return claims


async def recover_node(engine: Engine, work: Work) -> None:
    """Ask the executor about one claimed node and record what it can prove."""
    uncertain = work.node_state in (NodeState.UNKNOWN, NodeState.SUBMITTING)
    if not uncertain or work.request_state is not RequestState.EXECUTING:
        await engine.store.release([work.claim])
        return
    move = await _investigate(engine, work)
    fault_point(FaultPoint.RECOVER_RESPONSE)
    try:
        await engine.outcomes.record(work, move)
    except StaleClaim as stale:
        log.warning("recovery fenced", node=work.claim.node_id, reason=str(stale))


async def _investigate(engine: Engine, work: Work) -> Move:
    interval = engine.settings.node_recovery_interval_seconds
    try:
        executor = engine.executors.resolve(str(work.node.executor_key))
        context = build_execution_context(work, attempt_no=work.attempt_no)
        async with engine.session_for(executor) as session:
            result = await executor.recover(context, session)
        result = await _unless_anothers(engine, work, executor, result)
    except Exception as error:
        log.exception("recover raised", node=work.claim.node_id)
        return move_for_error(work, StepKind.RECOVERED, error, look_after=interval)
    return move_for_recover(result, interval_seconds=interval)


async def _unless_anothers(engine: Engine, work: Work, executor: Executor, result: ExecutionResult) -> ExecutionResult:
    """What was found, unless another node has it already: one action is never counted for two."""
    refs = result.provider_refs
    if not isinstance(executor, Adopts) or result.status is ResultStatus.UNKNOWN:
        return result
    if not any(refs.get(name) for name in executor.identifying_refs):
        return result
    async with engine.store.deciding() as tx:
        holder = await tx.holder_of(work.claim.node_id, refs, executor.identifying_refs)
    if holder is None:
        return result
    message = (
        f"what was found is {holder}'s already, so nothing is known of this one's own: look for it at the provider"
    )
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        error_code="FOUND_ANOTHERS",
        error_message=message,
        evidence={"operator": message, "found": dict(result.evidence)},
    )
