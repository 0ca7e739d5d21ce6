"""What people do about movements that stopped: let them go on, do a failed node again, take a manual step out."""

from __future__ import annotations

from qtg_dagster.domain.actions import Action
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.progress import derive_request_state
from qtg_dagster.domain.requests import Decision, LockedRequest
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.permission import lock_for
from qtg_dagster.engine.ports import Decisions
from qtg_dagster.engine.requests import go_on_after
from qtg_dagster.store.database import Transaction

_STOPPED = frozenset({RequestState.FAILED, RequestState.MANUAL_INTERVENTION})


async def resume_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Let a movement in MANUAL_INTERVENTION go on: what is in flight or UNKNOWN is looked at again.

    Raises `NotFound`; `Conflict` when it does not wait for an intervention, or when a node of it has FAILED and
    nothing is left to find out: then only `retry_node` or a cancel leads on.
    """
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.RESUME)
        await _go_on(tx, request)
        await tx.decide(request, Decision(actor, "resume", {"reason": reason}))


async def retry_node(
    engine: Engine, request_id: str, node_key: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Have a FAILED node done again, as a new attempt under a key of its own.

    Its movement goes on in the same commit, unless another node keeps it stopped. Raises `NotFound`; `Conflict` for
    a node that is not FAILED, a movement that has ended, or an earlier attempt that could still take effect.
    """
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.RETRY, node_key)
        await make_ready_again(tx, request, node_key, actor=actor, reason=reason)
        await go_on_if_freed(tx, request)
        await tx.decide(request, Decision(actor, "retry", {"node_key": node_key, "reason": reason}))


async def skip_node(
    engine: Engine, request_id: str, node_key: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Take a manual step out of a movement; what waited for it goes on as if it were done.

    A step that is skipped before its turn still keeps the order: what comes after it waits for what came before.
    Raises `NotFound`; `Conflict` for a node that an executor does, that is neither READY nor BLOCKED, or whose
    values a later node's config refers to.
    """
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say why the step is not needed.")
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.SKIP, node_key)
        facts = {"skipped": reason}
        await tx.move_nodes(
            request, [node_key], NodeState.SKIPPED, step_kind=StepKind.OPERATOR, facts=facts, actor=actor
        )
        await go_on_after(tx, request, node_key, NodeState.SKIPPED)
        await tx.decide(request, Decision(actor, "skip", {"node_key": node_key, "reason": reason}))


async def make_ready_again(tx: Decisions, request: LockedRequest, node_key: str, *, actor: str, reason: str) -> None:
    """FAILED -> READY, as a person's step in the journal."""
    facts = {"retry": reason}
    await tx.move_nodes(request, [node_key], NodeState.READY, step_kind=StepKind.OPERATOR, facts=facts, actor=actor)


async def go_on_if_freed(tx: Decisions, request: LockedRequest) -> None:
    """EXECUTING again, when no node keeps a stopped movement stopped any more."""
    after = await tx.lock_request(request.request_id, request.network_class)
    still = derive_request_state(after.stored.plan, after.node_states)
    if after.request_state in _STOPPED and still not in _STOPPED:
        await _go_on(tx, after)


async def _go_on(tx: Decisions, request: LockedRequest) -> None:
    """EXECUTING, and from there at once to what the nodes say, when that is a person's step or the end."""
    await tx.set_request_state(request, RequestState.EXECUTING)
    derived = derive_request_state(request.stored.plan, request.node_states)
    if derived in (RequestState.WAITING_MANUAL_ACTION, RequestState.COMPLETED):
        going = await tx.lock_request(request.request_id, request.network_class)
        await tx.set_request_state(going, derived)
    await tx.wake("dispatch", "observe", "recover")
