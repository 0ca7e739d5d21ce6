"""Attaching what exists already to a node: looked up by nobody else, written as the moves it amounts to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.work import Claim
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.requests import LockedRequest
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
    WHERE v.request_node_id = CAST(:node_id AS uuid) AND v.reservation_state <> 'RELEASED'
      AND (CAST(:nonce AS bigint) IS NULL OR v.nonce > CAST(:nonce AS bigint))
      AND (v.reservation_state = 'BOUND' OR EXISTS (
            SELECT 1 FROM qtg.signer_journal j
            WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce))
    LIMIT 1
""")
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


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as it stands, before or under its lock."""

    node_id: str
    node_state: NodeState
    attempt_no: int
    claim_epoch: int
    being_worked: bool  # claimed by a runner that lives

    def claim(self, request_id: str) -> Claim:
        """To read its work with; nobody's claim, so nothing can be written under it."""
        return Claim(self.node_id, request_id, 0, self.claim_epoch, self.node_state)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What is attached to which attempt, and who says so."""

    node_id: str
    prepared: PreparedAction
    idempotency_key: str
    refs: Mapping[str, Any]
    facts: Mapping[str, Any]
    actor: str
    ledger: str | None


async def find_node(transaction: Transaction, request: LockedRequest, node_key: str) -> FoundNode:
    """The node as it stands now."""
    row = (await transaction.execute(_FIND, {"request_id": request.request_id, "node_key": node_key})).one()
    return FoundNode(row.node_id, NodeState(row.node_state), row.attempt_no, row.claim_epoch, bool(row.being_worked))


async def lock_node(transaction: Transaction, node_id: str) -> None:
    """Hold a node against claims."""
    await transaction.execute(_LOCK_NODE, {"node_id": node_id})


async def holder_of(
    transaction: Transaction, node_id: str, refs: Mapping[str, Any], identifying: Sequence[str]
) -> str | None:
    """Which other node has the thing that these refs name; and until this transaction ends, nobody else adopts it."""
    things = sorted((name, refs[name]) for name in identifying if refs.get(name))
    for name, value in things:
        await transaction.execute(_LOCK_THING, {"adopting": _ADOPTING, "thing": f"{name}={value}"})
    for name, value in things:
        bound = {"node_id": node_id, "ref": as_json({name: value})}
        row = (await transaction.execute(_HELD_BY, bound)).one_or_none()
        if row is not None:
            return f"{row.node_key} of movement {row.request_id}"
    return None


async def nonce_in_the_way(transaction: Transaction, node_id: str, nonce: str | None) -> int | None:
    """A nonce above `nonce` that was signed for this node: it would be left to nobody, and all above it would wait."""
    bound = {"node_id": node_id, "nonce": int(nonce) if nonce is not None else None}
    found = (await transaction.execute(_NONCE_IN_THE_WAY, bound)).scalar_one_or_none()
    return None if found is None else int(found)


async def write_adoption(transaction: Transaction, adoption: Adoption) -> None:
    """READY or UNKNOWN -> SUBMITTED by adoption; whoever held a claim finds it taken over."""
    facts = as_json(redact(dict(adoption.facts)))
    bound = {"node_id": adoption.node_id, "facts": facts, "actor": adoption.actor}
    intent = {
        "idempotency_key": adoption.idempotency_key,
        "prepared": adoption.prepared.model_dump_json(),
        "payload_hash": adoption.prepared.payload_hash,
        "ledger": adoption.ledger,
    }
    await transaction.execute(_BEGIN, {**bound, **intent})
    await transaction.execute(_ADOPT, {**bound, "refs": as_json(dict(adoption.refs))})
