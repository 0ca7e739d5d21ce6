"""What people do to movements: create, approve, reject, cancel, and complete a manual step."""

from __future__ import annotations

from dataclasses import replace

import structlog

from qtg_dagster.domain.actions import Action
from qtg_dagster.domain.approvals import approvals_missing, approver_objection
from qtg_dagster.domain.errors import Conflict, InvalidInput, PlanDrift
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.plans import Plan, movement_hashes
from qtg_dagster.domain.progress import advance_after_completion
from qtg_dagster.domain.requests import (
    UNSEEN,
    Approval,
    Decision,
    LockedRequest,
    NodeMove,
    Publisher,
    StoredPlan,
)
from qtg_dagster.domain.states import (
    REQUEST_MOVES,
    NodeState,
    RequestState,
)
from qtg_dagster.engine.compiling import compile_order
from qtg_dagster.engine.orders import (
    MovementOrder,
    MovementReceipt,
)
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.permission import check_permitted, lock_for, standing_of
from qtg_dagster.engine.ports import Decisions
from qtg_dagster.engine.receivers import check_receiver
from qtg_dagster.engine.templates import check_executors, check_unchanged
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.database import Transaction

log = structlog.get_logger("qtg.engine")


async def publish_template(
    engine: Engine, plan: Plan, transaction: Transaction | None = None, *, actor: str = "unnamed"
) -> StoredPlan:
    """Store a template version; raises `InvalidInput` when one of its actions has no registered executor.

    Where templates change by proposal alone, only what stands already passes; all else raises `Conflict`.
    """
    check_executors(engine, plan)
    async with engine.store.deciding(transaction) as tx:
        if engine.settings.templates_by_proposal_only:
            await check_unchanged(tx, plan)
        return await tx.publish_plan(plan, by=Publisher(actor, engine.settings.network_class))


async def create_movement(
    engine: Engine, order: MovementOrder, transaction: Transaction | None = None
) -> MovementReceipt:
    """Store a movement that waits for approval.

    With `transaction`, it becomes part of the caller's own and commits with it. The same idempotency key and order
    returns the movement that stands; another order under the key raises `Conflict`. Nothing is stored on an error.
    The receiver of its callbacks is looked up first; not with the caller's transaction, in which nothing is waited for.
    """
    if transaction is None and order.callback_url is not None:
        if order.idempotency_key is not None:
            async with engine.store.deciding() as tx:
                standing = await _standing(engine, tx, order)
            if standing is not None:
                return standing
        await check_receiver(engine, order.callback_url)
    async with engine.store.deciding(transaction) as tx:
        # Before the template is looked at: what stands stands, also when the template was tightened or replaced since.
        standing = await _standing(engine, tx, order)
        if standing is not None:
            return standing
        new = compile_order(engine, order, await tx.require_plan(order.template_key, order.template_version))
        inserted = await tx.insert_request(new)
        if inserted is None:
            standing = await _standing(engine, tx, order)
            if standing is None:
                raise Conflict(UNSEEN)
            return standing
        for key, health in inserted.unwell.items():
            # Health passes: it bars an approval, not an order.
            log.warning("bound to one that may not work", key=key, health=health, request=inserted.request_id)
        return MovementReceipt(
            request_id=inserted.request_id,
            created=True,
            unwell=dict(inserted.unwell),
            template_version=new.stored.version,
            compiled_plan_hash=new.compiled_plan_hash,
            approval_digest=new.approval_digest,
            expires_at=inserted.expires_at,
        )


async def _standing(engine: Engine, tx: Decisions, order: MovementOrder) -> MovementReceipt | None:
    """The movement that stands under the order's key, if it has one; another order under it is a `Conflict`."""
    if order.idempotency_key is None:
        return None
    found = await tx.find_by_key(engine.settings.network_class, order.idempotency_key)
    if found is None:
        return None
    if found.body_hash != order.body_hash():
        raise Conflict(
            f"idempotency_key {order.idempotency_key!r} belongs to movement {found.request_id} with another content"
        )
    return MovementReceipt(
        request_id=found.request_id,
        created=False,
        template_version=found.template_version,
        compiled_plan_hash=found.compiled_plan_hash,
        approval_digest=found.approval_digest,
        expires_at=found.expires_at,
    )


async def approve_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str = "", transaction: Transaction | None = None
) -> Approval:
    """Approve a movement; with the last approval that its template asks for, its first nodes become READY.

    Raises `NotFound`; `Conflict` when it is not waiting for approval, when this actor's word does not count, or when an
    executor or signer it needs is down; `ApprovalExpired` after its window; `PlanDrift` when its plan is not the one
    that was compiled.
    """
    if transaction is None:
        approval = await _approve_pending(engine, request_id, actor, reason)
        if approval is not None:
            return approval
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.APPROVE)
        approval, decision = _approval(request, actor, reason)
        if decision.state not in (None, RequestState.APPROVED):
            await tx.set_request_state(request, RequestState.APPROVED)
            request = await tx.lock_request(request_id, request.network_class)
        fault_point(FaultPoint.APPROVE)
        await tx.decide(request, decision)
    return approval


async def _approve_pending(engine: Engine, request_id: str, actor: str, reason: str) -> Approval | None:
    """Approve without holding the movement meanwhile; None, and nothing written, when it takes the long way."""
    request = await engine.store.read_request(request_id, engine.settings.network_class)
    check_permitted(standing_of(engine, request), request, Action.APPROVE)
    approval, decision = _approval(request, actor, reason)
    alone = request.stored.plan.approval.required == 1  # else the others' words count too, and may come meanwhile
    if not alone or decision.state is not RequestState.APPROVED:
        return None
    fault_point(FaultPoint.APPROVE)
    return approval if await engine.store.decide_pending(request, decision) else None


def _approval(request: LockedRequest, actor: str, reason: str) -> tuple[Approval, Decision]:
    """One person's approval, and what begins with it when it is the last one.

    Raises `PlanDrift`, and `Conflict` for a word that does not count and for what is down.
    """
    _check_unchanged(request)
    policy = request.stored.plan.approval
    objection = approver_objection(
        policy, requested_by=request.requested_by, approved_by=request.approved_by, actor=actor
    )
    if objection:
        raise Conflict(f"movement {request.request_id}: {objection}")
    if request.down:
        raise Conflict(f"cannot approve while {', '.join(request.down)} is down; approve again when it is reachable")
    approval = Approval((*request.approved_by, actor), policy.required)
    decision = Decision(
        actor=actor,
        action="approve",
        details={
            "approvals": f"{len(approval.approved_by)} of {policy.required}",
            **({"reason": reason} if reason else {}),
        },
        approval="approved",
        reason=reason,
    )
    if approvals_missing(policy, approval.approved_by):
        return approval, decision
    found = advance_after_completion(request.stored.plan, request.node_states)
    facts = {"after": "approval"}
    begun = replace(
        decision,
        state=found.request_state or RequestState.APPROVED,
        frontier=found.ready,
        moves=[NodeMove(key, NodeState.READY, StepKind.READIED, facts, actor) for key in found.ready],
    )
    return approval, begun


async def reject_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Refuse a movement for good. Raises `NotFound`, `Conflict`, `ApprovalExpired`."""
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.REJECT)
        decision = Decision(
            actor=actor,
            action="reject",
            details={"reason": reason},
            approval="rejected",
            reason=reason,
            state=RequestState.REJECTED,
            moves=called_off(request, actor, "rejected"),
        )
        await tx.decide(request, decision)


async def cancel_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Stop a movement before anything else is started.

    Raises `Conflict` while a node is in flight or UNKNOWN: what may already have moved cannot be called off.
    """
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.CANCEL)
        decision = Decision(
            actor=actor,
            action="cancel",
            details={"reason": reason},
            state=RequestState.CANCELLED,
            moves=called_off(request, actor, reason),
        )
        await tx.decide(request, decision)


async def complete_manual_node(
    engine: Engine,
    request_id: str,
    node_key: str,
    *,
    actor: str,
    note: str,
    provider_refs: dict[str, str] | None = None,
    transaction: Transaction | None = None,
) -> None:
    """Record that a person did a manual step; `provider_refs` is what later nodes may reference.

    Raises `NotFound` for a node that is not there, `Conflict` for one that is not manual or not READY.
    """
    if not note.strip():
        raise InvalidInput("note", "is empty", "Say what was done and where it can be seen.")
    async with engine.store.deciding(transaction) as tx:
        request = await lock_for(engine, tx, request_id, Action.COMPLETE, node_key)
        facts = {"note": note, "provider_refs": provider_refs or {}}
        await tx.move_nodes(
            request,
            [node_key],
            NodeState.COMPLETED,
            step_kind=StepKind.OPERATOR,
            facts=facts,
            actor=actor,
            refs=provider_refs,
        )
        await go_on_after(tx, request, node_key, NodeState.COMPLETED)
        await tx.decide(request, Decision(actor, "complete_manual_node", {"node_key": node_key, **facts}))


async def go_on_after(tx: Decisions, request: LockedRequest, node_key: str, settled: NodeState) -> None:
    """All that follows when a person settled a node of a locked movement."""
    states = {**request.node_states, node_key: settled}
    found = advance_after_completion(request.stored.plan, states)
    await tx.move_nodes(request, found.ready, NodeState.READY, step_kind=StepKind.READIED, facts={"after": node_key})
    state = found.request_state
    if state is None and request.request_state is RequestState.WAITING_MANUAL_ACTION:
        state = RequestState.EXECUTING
    if found.ready:
        await tx.advance_frontier(request, found.ready, after=node_key)
    if state in REQUEST_MOVES[request.request_state]:
        await tx.set_request_state(request, state)


def _check_unchanged(request: LockedRequest) -> None:
    hashes = movement_hashes(request.stored.plan, request.intent, request.input_params, request.resolved_bindings)
    if hashes.compiled_plan != request.compiled_plan_hash:
        raise PlanDrift(f"movement {request.request_id}: the plan changed after the movement was created")
    if hashes.approval != request.approval_digest:
        raise PlanDrift(f"movement {request.request_id}: limits or timeouts changed after the movement was created")


def called_off(request: LockedRequest, actor: str, reason: str, kind: StepKind = StepKind.OPERATOR) -> list[NodeMove]:
    """All that has not begun, called off."""
    return [
        NodeMove(key, NodeState.CANCELLED, kind, {"reason": reason}, actor)
        for key, state in request.node_states.items()
        if state in (NodeState.BLOCKED, NodeState.READY)
    ]
