"""Looking at what became of submitted actions."""

from __future__ import annotations

import asyncio

import structlog

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.observation import clamp_hint, observe_delay
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.work import Move, Work
from qtg_dagster.engine.context import build_execution_context
from qtg_dagster.engine.outcomes import LOOK_FAILED, move_for_error, move_for_observe
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner
from qtg_dagster.faults import FaultPoint, fault_point

log = structlog.get_logger("qtg.engine")


async def observe_active_nodes(engine: Engine, runner: Runner, batch: int = 10) -> int:
    """One pass: claim up to `batch` due nodes and look at each; returns how many."""
    claims = await engine.store.claim_due_observations(runner, batch)
    if claims:
        fault_point(FaultPoint.OBSERVE_CLAIM)
    await asyncio.gather(*(observe_node(engine, work) for work in await engine.store.load_works(claims)))
    return len(claims)


async def observe_node(engine: Engine, work: Work) -> None:
    """Look at one claimed node and record what was seen."""
    active = work.node_state in (NodeState.SUBMITTED, NodeState.OBSERVING)
    if not active or work.request_state is not RequestState.EXECUTING:
        await engine.store.release([work.claim])
        return
    move = _timed_out(engine, work) if engine.settings.observe_timeout_enforcement_enabled else None
    if move is None:
        move = await _look(engine, work)
    fault_point(FaultPoint.OBSERVE_RESPONSE)
    try:
        await engine.outcomes.record(work, move)
    except StaleClaim as stale:
        log.warning("observation fenced", node=work.claim.node_id, reason=str(stale))
    if move.to_state is NodeState.COMPLETED:
        fault_point(FaultPoint.COMPLETE_ADVANCE_COMMIT)


async def _look(engine: Engine, work: Work) -> Move:
    try:
        executor = engine.executors.resolve(str(work.node.executor_key))
        result = await executor.observe(build_execution_context(work, attempt_no=work.attempt_no))
    except Exception as error:
        log.exception("observe raised", node=work.claim.node_id)
        in_a_row = work.looks + 1 if work.error_code == LOOK_FAILED else 0
        delay = clamp_hint(observe_delay(work.node.action_type, None) * 2 ** min(in_a_row, 10))
        return move_for_error(work, StepKind.OBSERVED, error, look_after=delay)
    return move_for_observe(work, result)


def _timed_out(engine: Engine, work: Work) -> Move | None:
    """UNKNOWN for a node that was due and has been observed for longer than its plan allows; never FAILED.

    The time begins anew when recovery or an adoption finds the action accepted: else it would be over at once.
    """
    limit = work.node.timeout_policy.observe_seconds
    if limit is None or work.observed_since is None:
        return None
    observed_for = (work.database_now - work.observed_since).total_seconds()
    if observed_for <= limit:
        return None
    message = f"no end seen after {observed_for:.0f} s; the plan allows {limit} s"
    return Move(
        to_state=NodeState.UNKNOWN,
        step_kind=StepKind.TIMED_OUT,
        facts={"observed_for_seconds": round(observed_for), "observe_seconds": limit},
        error_code="OBSERVATION_TIMEOUT",
        error_message=message,
        look_after=engine.settings.node_recovery_interval_seconds,
    )
