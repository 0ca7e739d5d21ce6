"""What a person's decision does to the nodes of a locked movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.journal import CallbackEvent, StepKind
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.requests import Decision, LockedRequest, NodeMove
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, NodeState, check_request_move
from qtg_dagster.store.database import InTransaction
from qtg_dagster.store.sessions import execute_and_commit
from qtg_dagster.store.statements import as_json, native, statement

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


def _as_item(move: NodeMove) -> dict[str, Any]:
    return {
        "node_key": move.node_key,
        "to_state": move.to_state,
        "step_kind": move.step_kind,
        "facts": redact(dict(move.facts)),
        "actor": move.actor,
        "refs": dict(move.refs),
    }


class Decided(InTransaction):
    """What a person's decision does to a locked movement."""

    async def decide(self, request: LockedRequest, decision: Decision) -> None:
        """Write a decision about a locked movement in one statement: moves, journal, approval, callbacks and audit.

        The last word of its transaction: one of our own commits in the same round trip.
        """
        state = decision.state
        if state is not None:
            check_request_move(request.request_state, state)
        approval = {
            "decision": decision.approval,
            "actor": decision.actor,
            "reason": decision.reason,
            "compiled_plan_hash": request.compiled_plan_hash,
            "approval_digest": request.approval_digest,
        }
        deed = {
            "network_class": request.network_class,
            "actor": decision.actor,
            "action": decision.action,
            "details": redact(dict(decision.details)),
        }
        news = {"request_id": request.request_id, "request_state": state}
        told = {"event_type": CallbackEvent.REQUEST_STATE_CHANGED, "payload": news}
        bound = {
            "request_id": request.request_id,
            "moves": as_json([_as_item(move) for move in decision.moves]),
            "state": state,
            "finished": state in FINAL_REQUEST_STATES,
            "frontier": list(decision.frontier) if decision.frontier is not None else None,
            "callback_url": request.callback_url,
            "callbacks": as_json([told] if state else []),
            "approval": as_json(approval) if decision.approval else None,
            "deed": as_json(deed),
            "wake": ["dispatch"] if any(move.to_state is NodeState.READY for move in decision.moves) else [],
        }
        if self._ours:
            await execute_and_commit(self._tx, native("decide"), bound)
        else:
            await self._tx.execute(statement("decide"), bound)

    async def move_nodes(
        self,
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
        await self._tx.execute(
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
            await self.wake("dispatch")

    async def wake(self, *kinds: str) -> None:
        """Let the drains of these kinds look at once when this transaction commits."""
        for kind in kinds:
            await self._tx.execute(text("SELECT pg_notify('qtg_wake', :kind)"), {"kind": kind})
