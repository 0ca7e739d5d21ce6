"""Movement requests: stored, locked and decided on by people. The drains' writes are in `moves`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.dialects.postgresql import insert as upsert

from qtg_dagster.domain.errors import NotFound
from qtg_dagster.domain.journal import CallbackEvent, StepKind
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.states import (
    FINAL_REQUEST_STATES,
    NodeState,
    RequestState,
    check_request_move,
)
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.schema.movements import movement_approvals, movement_request_nodes, movement_requests
from qtg_dagster.store.schema.outboxes import audit_outbox
from qtg_dagster.store.statements import as_json, statement
from qtg_dagster.store.templates import StoredPlan, require_plan

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LOCK = text("""
    SELECT r.id::text AS request_id, r.network_class, r.request_state, r.intent, r.input_params, r.resolved_bindings,
           r.compiled_plan_hash, r.approval_digest, r.expires_at, r.expires_at <= now() AS expired, r.callback_url,
           r.requested_by, t.template_key, v.version
    FROM qtg.movement_requests r
    JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id
    JOIN qtg.movement_templates t ON t.id = v.template_id
    WHERE r.id = CAST(:request_id AS uuid) AND r.network_class = :network_class
    FOR NO KEY UPDATE OF r
""")
_SET_STATE = text("""
    UPDATE qtg.movement_requests
    SET request_state = :state,
        current_frontier = coalesce(CAST(:frontier AS text[]), current_frontier),
        approved_at = CASE WHEN :state = 'APPROVED' THEN now() ELSE approved_at END,
        finished_at = CASE WHEN CAST(:finished AS boolean) THEN now() ELSE finished_at END
    WHERE id = CAST(:request_id AS uuid)
""")
_MOVE_NODES = text("""
    WITH chosen AS (
        SELECT id, node_state, nextval('qtg.movement_node_steps_id_seq') AS step_id
        FROM qtg.movement_request_nodes
        WHERE request_id = CAST(:request_id AS uuid) AND node_key = ANY (CAST(:keys AS text[]))
        FOR NO KEY UPDATE
    ),
    moved AS (
        UPDATE qtg.movement_request_nodes n
        SET node_state = CAST(:state AS text), next_look_at = NULL, runner_id = NULL, in_flight_key = NULL,
            provider_refs = n.provider_refs || CAST(:refs AS jsonb),
            claim_epoch = n.claim_epoch + 1,
            evidence_step_id = CASE WHEN CAST(:state AS text) IN ('COMPLETED', 'FAILED') THEN chosen.step_id
                                    ELSE n.evidence_step_id END,
            completed_at = CASE WHEN CAST(:state AS text) = 'COMPLETED' THEN now() ELSE n.completed_at END
        FROM chosen
        WHERE n.id = chosen.id
        RETURNING n.id, n.node_key, n.attempt_no, chosen.step_id, chosen.node_state AS from_state
    ),
    journal AS (
        INSERT INTO qtg.movement_node_steps
            (id, request_node_id, attempt_no, step_kind, from_state, to_state, facts, actor)
        SELECT step_id, id, attempt_no, :step_kind, from_state, CAST(:state AS text), CAST(:facts AS jsonb),
               CAST(:actor AS text)
        FROM moved
    )
    SELECT node_key FROM moved
""")


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A validated movement, ready to be stored."""

    network_class: str
    stored: StoredPlan
    intent: Mapping[str, Any]
    input_params: Mapping[str, Any]
    resolved_bindings: Mapping[str, str]
    serialization_keys: Mapping[str, str | None]
    compiled_plan_hash: str
    approval_digest: str
    body_hash: str
    requested_by: str
    reason: str
    ttl_seconds: int
    idempotency_key: str | None = None
    callback_url: str | None = None


@dataclass(frozen=True, slots=True)
class LockedRequest:
    """A movement under its row lock; nobody else moves it until the transaction ends."""

    request_id: str
    network_class: str
    request_state: RequestState
    intent: dict[str, Any]
    input_params: dict[str, Any]
    resolved_bindings: dict[str, str]
    compiled_plan_hash: str
    approval_digest: str
    expires_at: datetime | None
    expired: bool
    callback_url: str | None
    requested_by: str
    stored: StoredPlan
    node_states: dict[str, NodeState]


async def insert_request(transaction: Transaction, new: NewRequest) -> tuple[str, bool, str]:
    """Store a movement and its BLOCKED nodes; returns (request id, created, body hash that stands).

    With an idempotency key that is taken, nothing is stored and the standing movement is returned.
    """
    values = {
        "network_class": new.network_class,
        "plan_version_id": new.stored.plan_version_id,
        "request_state": RequestState.PENDING_APPROVAL,
        "idempotency_key": new.idempotency_key,
        "body_hash": new.body_hash,
        "intent": dict(new.intent),
        "input_params": dict(new.input_params),
        "resolved_bindings": dict(new.resolved_bindings),
        "compiled_plan_hash": new.compiled_plan_hash,
        "approval_digest": new.approval_digest,
        "requested_by": new.requested_by,
        "reason": new.reason,
        "callback_url": new.callback_url,
        "expires_at": text("now() + make_interval(secs => :ttl)").bindparams(ttl=new.ttl_seconds),
    }
    statement = upsert(movement_requests).values(values).on_conflict_do_nothing().returning(movement_requests.c.id)
    request_id = (await transaction.execute(statement)).scalar_one_or_none()
    if request_id is None:
        standing = text(
            "SELECT id::text AS id, body_hash FROM qtg.movement_requests "
            "WHERE network_class = :network_class AND idempotency_key = :key"
        )
        row = (
            await transaction.execute(standing, {"network_class": new.network_class, "key": new.idempotency_key})
        ).one()
        return row.id, False, row.body_hash
    nodes = [
        {
            "request_id": request_id,
            "plan_node_id": new.stored.node_ids[node.node_key],
            "node_key": node.node_key,
            "node_kind": node.node_kind,
            "executor_key": node.executor_key,
            "node_state": NodeState.BLOCKED,
            "serialization_key": new.serialization_keys.get(node.node_key),
        }
        for node in new.stored.plan.nodes
    ]
    await transaction.execute(insert(movement_request_nodes).values(nodes))
    return str(request_id), True, new.body_hash


async def lock_request(transaction: Transaction, request_id: str, network_class: str) -> LockedRequest:
    """Lock a movement and read it; raises `NotFound`."""
    row = None
    if _UUID.fullmatch(request_id):
        which = {"request_id": request_id, "network_class": network_class}
        row = (await transaction.execute(_LOCK, which)).one_or_none()
    if row is None:
        raise NotFound(f"there is no movement request {request_id!r} in network class {network_class}")
    # A statement of its own: the one that waited for the lock does not see what was committed meanwhile.
    found = await transaction.execute(statement("read_node_states"), {"request_id": row.request_id})
    return LockedRequest(
        request_id=row.request_id,
        network_class=row.network_class,
        request_state=RequestState(row.request_state),
        intent=row.intent,
        input_params=row.input_params,
        resolved_bindings=row.resolved_bindings,
        compiled_plan_hash=row.compiled_plan_hash,
        approval_digest=row.approval_digest,
        expires_at=row.expires_at,
        expired=bool(row.expired),
        callback_url=row.callback_url,
        requested_by=row.requested_by,
        stored=await require_plan(transaction, row.template_key, row.version),
        node_states={key: NodeState(state) for key, state in found.scalar_one().items()},
    )


async def set_request_state(
    transaction: Transaction, request: LockedRequest, state: RequestState, *, frontier: Sequence[str] | None = None
) -> None:
    """Move a locked movement and tell its owner."""
    check_request_move(request.request_state, state)
    await transaction.execute(
        _SET_STATE,
        {
            "request_id": request.request_id,
            "state": state,
            "frontier": list(frontier) if frontier is not None else None,
            "finished": state in FINAL_REQUEST_STATES,
        },
    )
    await _tell(transaction, request, CallbackEvent.REQUEST_STATE_CHANGED, {"request_state": state})


async def advance_frontier(
    transaction: Transaction, request: LockedRequest, frontier: Sequence[str], *, after: str
) -> None:
    """Record which nodes a locked movement has come to, and tell its owner."""
    await transaction.execute(
        text(
            "UPDATE qtg.movement_requests SET current_frontier = CAST(:frontier AS text[]) "
            "WHERE id = CAST(:request_id AS uuid)"
        ),
        {"request_id": request.request_id, "frontier": list(frontier)},
    )
    await _tell(transaction, request, CallbackEvent.FRONTIER_ADVANCED, {"node_key": after, "frontier": list(frontier)})


async def move_nodes(
    transaction: Transaction,
    request: LockedRequest,
    keys: Sequence[str],
    state: NodeState,
    *,
    step_kind: StepKind,
    facts: Mapping[str, Any],
    actor: str | None = None,
    refs: Mapping[str, Any] | None = None,
) -> None:
    """Move nodes of a locked movement by a person's decision or as its consequence; the journal says which."""
    if not keys:
        return
    await transaction.execute(
        _MOVE_NODES,
        {
            "request_id": request.request_id,
            "keys": list(keys),
            "state": state,
            "step_kind": step_kind,
            "facts": as_json(redact(dict(facts))),
            "actor": actor,
            "refs": as_json(dict(refs or {})),
        },
    )
    if state is NodeState.READY:
        await wake(transaction, "dispatch")


async def wake(transaction: Transaction, *kinds: str) -> None:
    """Let the drains of these kinds look at once when this transaction commits."""
    for kind in kinds:
        await transaction.execute(text("SELECT pg_notify('qtg_wake', :kind)"), {"kind": kind})


async def unproven_attempts(transaction: Transaction, request: LockedRequest, node_key: str) -> list[tuple[int, str]]:
    """Attempts of a node that are not proven to have had no effect: their numbers and outcomes so far."""
    rows = await transaction.execute(
        text("""
            SELECT a.attempt_no, coalesce(a.outcome, 'not known') AS outcome
            FROM qtg.movement_node_attempts a JOIN qtg.movement_request_nodes n ON n.id = a.request_node_id
            WHERE n.request_id = CAST(:request_id AS uuid) AND n.node_key = :node_key
              AND coalesce(a.outcome, '') NOT IN ('NOT_SENT', 'REJECTED', 'FAILED')
            ORDER BY a.attempt_no
        """),
        {"request_id": request.request_id, "node_key": node_key},
    )
    return [(row.attempt_no, row.outcome) for row in rows]


async def insert_approval(
    transaction: Transaction, request: LockedRequest, *, decision: str, actor: str, reason: str
) -> None:
    """Record a decision with exactly what was decided on."""
    await transaction.execute(
        insert(movement_approvals).values(
            request_id=request.request_id,
            decision=decision,
            actor=actor,
            reason=reason,
            compiled_plan_hash=request.compiled_plan_hash,
            approval_digest=request.approval_digest,
        )
    )


async def audit(
    transaction: Transaction,
    *,
    network_class: str,
    actor: str,
    action: str,
    subject_id: str,
    details: Mapping[str, Any],
) -> None:
    """Write who did what, in the transaction of the deed."""
    await transaction.execute(
        insert(audit_outbox).values(
            network_class=network_class,
            actor=actor,
            action=action,
            subject_type="movement_request",
            subject_id=subject_id,
            details=redact(dict(details)),
        )
    )


async def down_bindings(transaction: Transaction, network_class: str, bindings: Mapping[str, str]) -> list[str]:
    """Keys among the bindings' executors and signers whose last known health is `down`."""
    rows = await transaction.execute(
        text("""
            SELECT key FROM (
                SELECT executor_key AS key, network_class, health_state FROM qtg.executor_registry
                UNION ALL
                SELECT signer_key, network_class, health_state FROM qtg.signer_registry
            ) AS entry
            WHERE network_class = :network_class AND health_state = 'down' AND key = ANY (CAST(:keys AS text[]))
        """),
        {"network_class": network_class, "keys": sorted(set(bindings.values()))},
    )
    return sorted(rows.scalars())


async def _tell(
    transaction: Transaction, request: LockedRequest, event: CallbackEvent, payload: Mapping[str, Any]
) -> None:
    if request.callback_url is None:
        return
    await transaction.execute(
        text(
            "INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url) "
            "VALUES (CAST(:request_id AS uuid), :event, CAST(:payload AS jsonb), :url)"
        ),
        {
            "request_id": request.request_id,
            "event": event,
            "payload": as_json({"request_id": request.request_id, **payload}),
            "url": request.callback_url,
        },
    )
