"""Attaching what exists already to a node: looked up by nobody else, written as the moves it amounts to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.requests import Adoption, FoundNode, LockedRequest
from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import InTransaction
from qtg_dagster.store.statements import as_json

#: First key of the advisory locks under which one thing is adopted once.
_ADOPTING = 7719283

_FIND = text("""
    SELECT n.id::text AS node_id, n.node_state, n.attempt_no, n.claim_epoch,
           n.runner_id IN (SELECT runner_id FROM qtg.live_runners) AS being_worked
    FROM qtg.movement_request_nodes n
    WHERE n.request_id = CAST(:request_id AS uuid) AND n.node_key = :node_key
""")
_LOCK_NODE = text("SELECT id FROM qtg.movement_request_nodes WHERE id = CAST(:node_id AS uuid) FOR NO KEY UPDATE")
_LOCK_THING = text("SELECT pg_advisory_xact_lock(:adopting, hashtext(:thing))")

# Every node that acts and knows this thing as its own, whether it adopted it, was told of it, or signed it itself.
_HELD_BY = text("""
    SELECT n.node_key, n.request_id::text AS request_id
    FROM qtg.movement_request_nodes n
    LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = n.id
    WHERE n.node_kind = 'action' AND n.id <> CAST(:node_id AS uuid)
      AND (n.provider_refs @> CAST(:ref AS jsonb) OR a.prepared -> 'provider_refs' @> CAST(:ref AS jsonb))
    LIMIT 1
""")

# A nonce that was signed for the node and that the chain has not come to: it could not be given back. (One below the
# adopted transaction's is used up, because a chain executes a sender's nonces in order.)
_NONCE_IN_THE_WAY = text("""
    SELECT v.nonce
    FROM qtg.evm_nonce_reservation v
    WHERE v.request_node_id = CAST(:node_id AS uuid) AND v.reservation_state NOT IN ('RELEASED', 'CLOSED')
      AND (CAST(:nonce AS bigint) IS NULL OR v.nonce > CAST(:nonce AS bigint))
      AND (v.reservation_state IN ('BOUND', 'FILLING') OR EXISTS (
            SELECT 1 FROM qtg.signer_journal j
            WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce))
    LIMIT 1
""")
# For this transaction: a velocity limit counts what it adopts, and refuses none of it.
_LEFT_ALREADY = text("SELECT set_config('qtg.adopting', 'yes', true)")
_BEGIN = text("""
    WITH moved AS (
        UPDATE qtg.movement_request_nodes
        SET node_state = 'SUBMITTING', attempt_no = attempt_no + 1, started_at = coalesce(started_at, now()),
            provider_refs = '{}', error_code = NULL, error_message = NULL, looks = 0, next_look_at = NULL,
            runner_id = NULL, claimed_at = NULL, in_flight_key = NULL, claim_epoch = claim_epoch + 1
        WHERE id = CAST(:node_id AS uuid) AND node_state = 'READY'
        RETURNING id, attempt_no
    ),
    attempt AS (
        INSERT INTO qtg.movement_node_attempts
            (request_node_id, attempt_no, idempotency_key, prepared, payload_hash, ledger)
        SELECT id, attempt_no, :idempotency_key, CAST(:prepared AS jsonb), :payload_hash, CAST(:ledger AS jsonb)
        FROM moved
    )
    INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, from_state, to_state, facts, actor)
    SELECT id, attempt_no, 'operator', 'READY', 'SUBMITTING', CAST(:facts AS jsonb), :actor FROM moved
""")
_ADOPT = text("""
    WITH found AS (
        SELECT id, node_state, nextval('qtg.movement_node_steps_id_seq') AS step_id
        FROM qtg.movement_request_nodes
        WHERE id = CAST(:node_id AS uuid) AND node_state IN ('SUBMITTING', 'UNKNOWN')
    ),
    moved AS (
        UPDATE qtg.movement_request_nodes n
        SET node_state = 'SUBMITTED', provider_refs = n.provider_refs || CAST(:refs AS jsonb),
            error_code = NULL, error_message = NULL, facts_digest = NULL, looks = 0, next_look_at = now(),
            submitted_at = coalesce(n.submitted_at, now()),
            runner_id = NULL, claimed_at = NULL, in_flight_key = NULL, claim_epoch = n.claim_epoch + 1
        FROM found
        WHERE n.id = found.id
        RETURNING n.id, n.attempt_no, found.node_state AS from_state, found.step_id
    ),
    attempt AS (
        UPDATE qtg.movement_node_attempts a
        SET outcome = 'ACCEPTED', outcome_step_id = moved.step_id, outcome_at = now()
        FROM moved
        WHERE a.request_node_id = moved.id AND a.attempt_no = moved.attempt_no
    ),
    released AS (
        UPDATE qtg.evm_nonce_reservation v
        SET reservation_state = 'RELEASED', evidence_step_id = moved.step_id, released_at = now()
        FROM moved
        WHERE v.request_node_id = moved.id AND v.reservation_state = 'RESERVED'
          AND NOT EXISTS (SELECT 1 FROM qtg.signer_journal j
                          WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce)
    )
    INSERT INTO qtg.movement_node_steps (id, request_node_id, attempt_no, step_kind, from_state, to_state, facts, actor)
    SELECT step_id, id, attempt_no, 'operator', from_state, 'SUBMITTED', CAST(:facts AS jsonb), :actor FROM moved
""")


class Adoptions(InTransaction):
    """Nodes that are given what exists already."""

    async def find_node(self, request: LockedRequest, node_key: str) -> FoundNode:
        """The node as it stands now."""
        row = (await self._tx.execute(_FIND, {"request_id": request.request_id, "node_key": node_key})).one()
        state, worked = NodeState(row.node_state), bool(row.being_worked)
        return FoundNode(row.node_id, state, row.attempt_no, row.claim_epoch, worked)

    async def lock_node(self, node_id: str) -> None:
        """Hold a node against claims."""
        await self._tx.execute(_LOCK_NODE, {"node_id": node_id})

    async def holder_of(self, node_id: str, refs: Mapping[str, Any], identifying: Sequence[str]) -> str | None:
        """Which other node has the thing that these refs name; until this transaction ends, nobody else adopts it."""
        things = sorted((name, refs[name]) for name in identifying if refs.get(name))
        for name, value in things:
            await self._tx.execute(_LOCK_THING, {"adopting": _ADOPTING, "thing": f"{name}={value}"})
        for name, value in things:
            bound = {"node_id": node_id, "ref": as_json({name: value})}
            row = (await self._tx.execute(_HELD_BY, bound)).one_or_none()
            if row is not None:
                return f"{row.node_key} of movement {row.request_id}"
        return None

    async def nonce_in_the_way(self, node_id: str, nonce: str | None) -> int | None:
        """A nonce above `nonce` that was signed for this node: left to nobody, it would let all above it wait."""
        bound = {"node_id": node_id, "nonce": int(nonce) if nonce is not None else None}
        found = (await self._tx.execute(_NONCE_IN_THE_WAY, bound)).scalar_one_or_none()
        return None if found is None else int(found)

    async def write_adoption(self, adoption: Adoption) -> None:
        """READY or UNKNOWN -> SUBMITTED by adoption; whoever held a claim finds it taken over."""
        facts = as_json(redact(dict(adoption.facts)))
        bound = {"node_id": adoption.node_id, "facts": facts, "actor": adoption.actor}
        intent = {
            "idempotency_key": adoption.idempotency_key,
            "prepared": adoption.prepared.model_dump_json(),
            "payload_hash": adoption.prepared.payload_hash,
            "ledger": adoption.ledger,
        }
        await self._tx.execute(_LEFT_ALREADY)
        await self._tx.execute(_BEGIN, {**bound, **intent})
        await self._tx.execute(_ADOPT, {**bound, "refs": as_json(dict(adoption.refs))})
