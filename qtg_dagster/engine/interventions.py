"""What people do about movements that stopped: let them go on, and have a failed node done again."""

from __future__ import annotations

from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.progress import derive_request_state
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, UNSETTLED_NODE_STATES, NodeState, RequestState
from qtg_dagster.engine.deeds import audit_deed
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.decided import move_nodes, unproven_attempts, wake
from qtg_dagster.store.requests import LockedRequest, lock_request, set_request_state

_STOPPED = frozenset({RequestState.FAILED, RequestState.MANUAL_INTERVENTION})


async def resume_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Let a movement in MANUAL_INTERVENTION go on: what is in flight or UNKNOWN is looked at again.

    Raises `NotFound`; `Conflict` when it does not wait for an intervention, or when a node of it has FAILED and
    nothing is left to find out: then only `retry_node` or a cancel leads on.
    """
    async with engine.database.within(transaction) as tx:
        request = await lock_request(tx, request_id, engine.settings.network_class)
        if request.request_state is not RequestState.MANUAL_INTERVENTION:
            raise Conflict(f"movement {request_id} is {request.request_state}, not MANUAL_INTERVENTION")
        failed = _nodes_in(request, frozenset({NodeState.FAILED}))
        if failed and not _nodes_in(request, UNSETTLED_NODE_STATES):
            raise Conflict(
                f"movement {request_id} cannot go on while {', '.join(failed)} is FAILED; retry it, or cancel"
            )
        await _go_on(tx, request)
        await audit_deed(tx, engine, actor, "resume", request.request_id, {"reason": reason})


async def retry_node(
    engine: Engine, request_id: str, node_key: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Have a FAILED node done again, as a new attempt under a key of its own.

    Its movement goes on in the same commit, unless another node keeps it stopped. Raises `NotFound`; `Conflict` for
    a node that is not FAILED, a movement that has ended, or an earlier attempt that could still take effect.
    """
    async with engine.database.within(transaction) as tx:
        request = await lock_request(tx, request_id, engine.settings.network_class)
        state = request.node_states.get(node_key)
        if state is None:
            raise NotFound(f"movement {request_id} has no node {node_key!r}; it has {', '.join(request.node_states)}")
        if request.request_state in FINAL_REQUEST_STATES:
            raise Conflict(f"movement {request_id} is {request.request_state}; order a new one")
        if state is not NodeState.FAILED:
            raise Conflict(f"{node_key} is {state}; only a FAILED node is retried")
        open_attempts = await unproven_attempts(tx, request, node_key)
        if open_attempts:
            said = ", ".join(f"attempt {number} is {outcome}" for number, outcome in open_attempts)
            raise Conflict(f"{node_key} could still take effect: {said}; retrying it might move the money twice")
        await move_nodes(
            tx,
            request,
            [node_key],
            NodeState.READY,
            step_kind=StepKind.OPERATOR,
            facts={"retry": reason},
            actor=actor,
        )
        after = await lock_request(tx, request_id, engine.settings.network_class)
        still = derive_request_state(after.stored.plan, after.node_states)
        if after.request_state in _STOPPED and still not in _STOPPED:
            await _go_on(tx, after)
        await audit_deed(tx, engine, actor, "retry", request.request_id, {"node_key": node_key, "reason": reason})


async def _go_on(tx: Transaction, request: LockedRequest) -> None:
    """EXECUTING, and from there at once to what the nodes say, when that is a person's step or the end."""
    await set_request_state(tx, request, RequestState.EXECUTING)
    derived = derive_request_state(request.stored.plan, request.node_states)
    if derived in (RequestState.WAITING_MANUAL_ACTION, RequestState.COMPLETED):
        going = await lock_request(tx, request.request_id, request.network_class)
        await set_request_state(tx, going, derived)
    await wake(tx, "dispatch", "observe", "recover")


def _nodes_in(request: LockedRequest, states: frozenset[NodeState]) -> list[str]:
    return [key for key, state in request.node_states.items() if state in states]
