"""What a person's decision does to the nodes of a locked movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.requests import LockedRequest
from qtg_dagster.store.statements import as_json

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


async def open_attempts(transaction: Transaction, request: LockedRequest) -> dict[str, list[tuple[int, str]]]:
    """node key -> attempts that are not proven to have had no effect: their numbers and outcomes so far."""
    rows = await transaction.execute(
        text("""
            SELECT n.node_key, a.attempt_no, coalesce(a.outcome, 'not known') AS outcome
            FROM qtg.movement_node_attempts a JOIN qtg.movement_request_nodes n ON n.id = a.request_node_id
            WHERE n.request_id = CAST(:request_id AS uuid)
              AND coalesce(a.outcome, '') NOT IN ('NOT_SENT', 'REJECTED', 'FAILED')
            ORDER BY a.attempt_no
        """),
        {"request_id": request.request_id},
    )
    found: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        found.setdefault(row.node_key, []).append((row.attempt_no, row.outcome))
    return found
