"""What people do to movements: create, approve, reject, cancel, and complete a manual step."""

from __future__ import annotations

from typing import Any

from qtg_dagster.domain.canonical import digest
from qtg_dagster.domain.errors import ApprovalExpired, Conflict, InvalidInput, NotFound, PlanDrift
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.plans import NodeKind, Plan, approval_digest, compiled_plan_hash
from qtg_dagster.domain.progress import advance_after_completion
from qtg_dagster.domain.states import (
    FINAL_REQUEST_STATES,
    REQUEST_MOVES,
    UNSETTLED_NODE_STATES,
    NodeState,
    RequestState,
)
from qtg_dagster.engine.deeds import audit_deed
from qtg_dagster.engine.orders import (
    MovementOrder,
    MovementReceipt,
    check_static_limits,
    read_intent,
    read_parameters,
    static_config,
)
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.contract import serialization_key
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.approvals import down_bindings, insert_approval
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.decided import move_nodes
from qtg_dagster.store.requests import (
    LockedRequest,
    NewRequest,
    advance_frontier,
    insert_request,
    lock_request,
    set_request_state,
)
from qtg_dagster.store.templates import StoredPlan, publish_plan, require_plan


async def publish_template(engine: Engine, plan: Plan, transaction: Transaction | None = None) -> StoredPlan:
    """Store a template version; raises `InvalidInput` when one of its actions has no registered executor."""
    for node in plan.nodes:
        if node.executor_key is not None and node.executor_key not in engine.executors:
            raise InvalidInput(
                f"nodes.{node.node_key}.executor_key",
                f"no executor is registered as {node.executor_key}",
                "Register it, or name one of: " + ", ".join(key for key, _ in engine.executors.items()),
            )
    async with engine.database.within(transaction) as tx:
        return await publish_plan(tx, plan)


async def create_movement(
    engine: Engine, order: MovementOrder, transaction: Transaction | None = None
) -> MovementReceipt:
    """Store a movement that waits for approval.

    With `transaction`, it becomes part of the caller's own and commits with it. The same idempotency key and order
    returns the movement that stands; another order under the key raises `Conflict`. Nothing is stored on an error.
    """
    async with engine.database.within(transaction) as tx:
        stored = await require_plan(tx, order.template_key, order.template_version)
        new = _compile(engine, order, stored)
        request_id, created, body_hash = await insert_request(tx, new)
        if not created:
            if body_hash != new.body_hash:
                raise Conflict(
                    f"idempotency_key {order.idempotency_key!r} belongs to movement {request_id} with another content"
                )
        else:
            details = {"compiled_plan_hash": new.compiled_plan_hash, "intent": dict(new.intent)}
            await audit_deed(tx, engine, order.requested_by, "create", request_id, details)
        standing = await lock_request(tx, request_id, engine.settings.network_class)
        return MovementReceipt(
            request_id=request_id,
            created=created,
            template_version=standing.stored.version,
            compiled_plan_hash=standing.compiled_plan_hash,
            approval_digest=standing.approval_digest,
            expires_at=standing.expires_at,
        )


def _compile(engine: Engine, order: MovementOrder, stored: StoredPlan) -> NewRequest:
    plan = stored.plan
    values = read_parameters(plan, order.parameters, engine.inventory)
    intent = read_intent(plan, order, values)
    configs = {node.node_key: static_config(plan, node.node_key, intent, values) for node in plan.nodes}
    check_static_limits(plan, configs)
    bindings = _bind(engine, order, plan, configs)
    documents = (plan, intent, values, bindings)
    return NewRequest(
        network_class=engine.settings.network_class,
        stored=stored,
        intent=intent,
        input_params=values,
        resolved_bindings=bindings,
        serialization_keys={
            node.node_key: serialization_key(engine.executors.resolve(node.executor_key), configs[node.node_key])
            for node in plan.nodes
            if node.executor_key is not None
        },
        compiled_plan_hash=compiled_plan_hash(*documents),
        approval_digest=approval_digest(*documents),
        body_hash=digest("qtg.order.v1", order.model_dump(mode="json", exclude={"idempotency_key"})),
        requested_by=order.requested_by,
        reason=order.reason,
        ttl_seconds=order.approval_ttl_seconds or engine.settings.approval_ttl_seconds,
        idempotency_key=order.idempotency_key,
        callback_url=order.callback_url,
    )


def _bind(engine: Engine, order: MovementOrder, plan: Plan, configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Which executor does each node and which signer signs for each role; an account's own signer is the default."""
    for role in order.bindings:
        if role not in plan.signer_roles():
            known = ", ".join(sorted(plan.signer_roles())) or "none"
            raise InvalidInput(f"bindings.{role}", "the template has no such signer role", f"Use: {known}.")
    bindings: dict[str, str] = {}
    for node in plan.nodes:
        if node.executor_key is not None:
            engine.executors.resolve(node.executor_key)
            bindings[f"executor:{node.node_key}"] = node.executor_key
        if node.signer_role is None:
            continue
        signer = order.bindings.get(node.signer_role) or _account_signer(engine, configs[node.node_key])
        if signer is None or signer not in engine.signers:
            known = ", ".join(key for key, _ in engine.signers.items()) or "none"
            raise InvalidInput(
                f"bindings.{node.signer_role}", f"{signer or 'nothing'} is not a registered signer", f"Use: {known}."
            )
        bindings[f"signer:{node.signer_role}"] = signer
    return bindings


def _account_signer(engine: Engine, config: dict[str, Any]) -> str | None:
    account = config.get("account")
    return engine.inventory.account(account).signer if isinstance(account, str) else None


async def approve_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str = "", transaction: Transaction | None = None
) -> None:
    """Approve a movement: its first nodes become READY in the same commit.

    Raises `NotFound`; `Conflict` when it is not waiting for approval or an executor or signer it needs is down;
    `ApprovalExpired` after its window; `PlanDrift` when its plan is not the one that was compiled.
    """
    async with engine.database.within(transaction) as tx:
        request = await _lock_for_decision(engine, tx, request_id, "approved")
        _check_unchanged(request)
        down = await down_bindings(tx, request.network_class, request.resolved_bindings)
        if down:
            raise Conflict(f"cannot approve while {', '.join(down)} is down; approve again when it is reachable")
        await insert_approval(tx, request, decision="approved", actor=actor, reason=reason)
        found = advance_after_completion(request.stored.plan, request.node_states)
        await set_request_state(tx, request, RequestState.APPROVED, frontier=found.ready)
        await move_nodes(
            tx,
            request,
            found.ready,
            NodeState.READY,
            step_kind=StepKind.READIED,
            facts={"after": "approval"},
            actor=actor,
        )
        if found.request_state is not None:
            approved = await lock_request(tx, request_id, request.network_class)
            await set_request_state(tx, approved, found.request_state)
        details = {"approval_digest": request.approval_digest, "compiled_plan_hash": request.compiled_plan_hash}
        await audit_deed(tx, engine, actor, "approve", request.request_id, details)
        fault_point(FaultPoint.APPROVE)


async def reject_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Refuse a movement for good. Raises `NotFound`, `Conflict`, `ApprovalExpired`."""
    async with engine.database.within(transaction) as tx:
        request = await _lock_for_decision(engine, tx, request_id, "rejected")
        await insert_approval(tx, request, decision="rejected", actor=actor, reason=reason)
        await _cancel_nodes(tx, request, actor, "rejected")
        await set_request_state(tx, request, RequestState.REJECTED)
        await audit_deed(tx, engine, actor, "reject", request.request_id, {"reason": reason})


async def cancel_movement(
    engine: Engine, request_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> None:
    """Stop a movement before anything else is started.

    Raises `Conflict` while a node is in flight or UNKNOWN: what may already have moved cannot be called off.
    """
    async with engine.database.within(transaction) as tx:
        request = await lock_request(tx, request_id, engine.settings.network_class)
        if request.request_state in FINAL_REQUEST_STATES:
            raise Conflict(f"movement {request_id} is already {request.request_state}")
        await _cancel_nodes(tx, request, actor, reason)
        request = await lock_request(tx, request_id, engine.settings.network_class)
        started = [f"{key} {state}" for key, state in request.node_states.items() if state in UNSETTLED_NODE_STATES]
        if started:
            raise Conflict(
                f"movement {request_id} cannot be cancelled while {', '.join(started)}; let it settle, then cancel"
            )
        await set_request_state(tx, request, RequestState.CANCELLED)
        await audit_deed(tx, engine, actor, "cancel", request.request_id, {"reason": reason})


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
    async with engine.database.within(transaction) as tx:
        request = await lock_request(tx, request_id, engine.settings.network_class)
        state = request.node_states.get(node_key)
        if state is None:
            raise NotFound(f"movement {request_id} has no node {node_key!r}; it has {', '.join(request.node_states)}")
        if request.stored.plan.node(node_key).node_kind is not NodeKind.MANUAL:
            raise Conflict(f"{node_key} is done by an executor, not by hand")
        if state is not NodeState.READY:
            raise Conflict(f"{node_key} is {state}, not READY")
        facts = {"note": note, "provider_refs": provider_refs or {}}
        await move_nodes(
            tx,
            request,
            [node_key],
            NodeState.COMPLETED,
            step_kind=StepKind.OPERATOR,
            facts=facts,
            actor=actor,
            refs=provider_refs,
        )
        await _go_on(tx, request, node_key)
        await audit_deed(tx, engine, actor, "complete_manual_node", request.request_id, {"node_key": node_key, **facts})


async def _go_on(tx: Transaction, request: LockedRequest, node_key: str) -> None:
    states = {**request.node_states, node_key: NodeState.COMPLETED}
    found = advance_after_completion(request.stored.plan, states)
    await move_nodes(tx, request, found.ready, NodeState.READY, step_kind=StepKind.READIED, facts={"after": node_key})
    state = found.request_state
    if state is None and request.request_state is RequestState.WAITING_MANUAL_ACTION:
        state = RequestState.EXECUTING
    if found.ready:
        await advance_frontier(tx, request, found.ready, after=node_key)
    if state in REQUEST_MOVES[request.request_state]:
        await set_request_state(tx, request, state)


async def _lock_for_decision(engine: Engine, tx: Transaction, request_id: str, verb: str) -> LockedRequest:
    request = await lock_request(tx, request_id, engine.settings.network_class)
    if request.request_state is not RequestState.PENDING_APPROVAL:
        raise Conflict(f"movement {request_id} cannot be {verb}: it is {request.request_state}")
    if request.expired:
        raise ApprovalExpired(f"the approval window of movement {request_id} closed at {request.expires_at}")
    return request


def _check_unchanged(request: LockedRequest) -> None:
    documents = (request.stored.plan, request.intent, request.input_params, request.resolved_bindings)
    if compiled_plan_hash(*documents) != request.compiled_plan_hash:
        raise PlanDrift(f"movement {request.request_id}: the plan changed after the movement was created")
    if approval_digest(*documents) != request.approval_digest:
        raise PlanDrift(f"movement {request.request_id}: limits or timeouts changed after the movement was created")


async def _cancel_nodes(tx: Transaction, request: LockedRequest, actor: str, reason: str) -> None:
    waiting = [k for k, state in request.node_states.items() if state in (NodeState.BLOCKED, NodeState.READY)]
    await move_nodes(
        tx, request, waiting, NodeState.CANCELLED, step_kind=StepKind.OPERATOR, facts={"reason": reason}, actor=actor
    )
