"""The nonce ledger: the next nonce of a sender comes from here, never from a chain's pending count alone."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, text

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.database import Database

#: Who reserves a nonce of a sender, or fills one, does so alone.
LOCK_SENDER = text("SELECT pg_advisory_xact_lock(hashtextextended(:chain || ':' || :sender, 515447))")

# What this node already holds: for this very attempt, or for an earlier one that provably never left. A nonce that
# was signed stays with its node, since its signer will sign no other effect under it.
_OWN = text("""
    UPDATE qtg.evm_nonce_reservation v
    SET attempt_no = :attempt_no,
        reservation_state = CASE WHEN v.attempt_no = :attempt_no THEN v.reservation_state ELSE 'RESERVED' END,
        payload_hash = CASE WHEN v.attempt_no = :attempt_no THEN v.payload_hash END
    WHERE v.request_node_id = CAST(:request_node_id AS uuid) AND v.reservation_state IN ('RESERVED', 'BOUND')
      AND v.nonce >= :chain_nonce
      AND (v.attempt_no = :attempt_no OR NOT EXISTS (
            SELECT 1 FROM qtg.movement_node_attempts a
            WHERE a.request_node_id = v.request_node_id AND a.attempt_no = v.attempt_no
              AND a.outcome IS DISTINCT FROM 'NOT_SENT'))
    RETURNING v.nonce
""")

# Where the rows of used nonces were deleted, what they proved stays: a node of the chain that lags does not count.
_COUNT = """greatest(CAST(:chain_nonce AS bigint), (
        SELECT f.nonce + 1 FROM qtg.evm_nonce_floors f WHERE f.chain = :chain AND f.sender = :sender))"""

# The lowest nonce at or above the chain's count that no live reservation holds: a released gap is filled first,
# because the chain executes nothing above a gap. One statement, one snapshot: a nonce that is being deleted meanwhile
# is seen in its row or below the floor.
_RESERVE = text(f"""
    INSERT INTO qtg.evm_nonce_reservation
        (chain, sender, nonce, request_node_id, attempt_no, reservation_state)
    SELECT :chain, :sender, min(candidate.nonce), CAST(:request_node_id AS uuid), :attempt_no, 'RESERVED'
    FROM (
        SELECT {_COUNT} AS nonce
        UNION ALL
        SELECT nonce + 1 FROM qtg.evm_nonce_reservation
        WHERE chain = :chain AND sender = :sender AND reservation_state <> 'RELEASED' AND nonce >= {_COUNT}
    ) AS candidate
    WHERE NOT EXISTS (
        SELECT 1 FROM qtg.evm_nonce_reservation taken
        WHERE taken.chain = :chain AND taken.sender = :sender AND taken.nonce = candidate.nonce
          AND taken.reservation_state <> 'RELEASED')
    RETURNING nonce
""")  # noqa: S608 - our own constant

# What keeps the node itself from a nonce: one signed for it earlier may still be used, or was by its very transaction,
# so that doing it under another nonce might pay twice.
_OWN_OPEN = text("""
    SELECT v.nonce, v.reservation_state, v.used_by, v.used_tx,
           EXISTS (SELECT 1 FROM qtg.evm_nonce_fillers f
                   WHERE f.chain = v.chain AND f.sender = v.sender AND f.nonce = v.nonce
                     AND f.filler_state IN ('ORDERED', 'PREPARED', 'SENT')) AS filling
    FROM qtg.evm_nonce_reservation v
    WHERE v.request_node_id = CAST(:request_node_id AS uuid) AND v.chain = :chain AND v.sender = :sender
      AND (v.reservation_state = 'FILLING' OR v.used_by = 'original'
           OR EXISTS (SELECT 1 FROM qtg.evm_nonce_fillers f
                      WHERE f.chain = v.chain AND f.sender = v.sender AND f.nonce = v.nonce
                        AND f.filler_state IN ('ORDERED', 'PREPARED', 'SENT'))
           OR v.reservation_state = 'RESERVED' AND v.attempt_no = :attempt_no AND v.nonce < :chain_nonce)
    ORDER BY v.used_by IS NULL, v.nonce
    LIMIT 1
""")

# A nonce that is held and will never be used by its holder: the chain executes nothing above it until somebody else
# uses it. (A nonce that was signed is not handed on, since its signer will sign no other effect under it.) One whose
# holder a breaker holds back is no better: what is sent above it would go out when the breaker is closed.
_HOLE = text(f"""
    SELECT v.nonce, v.request_node_id::text AS node_id, n.node_state, v.reservation_state = 'FILLING' AS filling
    FROM qtg.evm_nonce_reservation v
    JOIN qtg.movement_request_nodes n ON n.id = v.request_node_id
    LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = v.request_node_id AND a.attempt_no = v.attempt_no
    WHERE v.chain = :chain AND v.sender = :sender AND v.reservation_state <> 'RELEASED' AND v.nonce >= {_COUNT}
      AND (v.reservation_state = 'FILLING' OR n.node_state IN ('FAILED', 'CANCELLED', 'SKIPPED')
           OR a.outcome = 'REJECTED'
           OR n.node_state = 'READY' AND EXISTS (
                SELECT 1 FROM qtg.breakers b JOIN qtg.movement_requests r ON r.network_class = b.network_class
                WHERE r.id = n.request_id AND b.closed_at IS NULL AND b.scope = ANY (n.scopes)
                  AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s
                                  WHERE s.breaker_id = b.id AND s.request_node_id = n.id)))
    ORDER BY v.nonce
    LIMIT 1
""")  # noqa: S608 - our own constant
# Signed after it had been given back, by a worker that slept: its signer will sign nothing else under it.
_SIGNED_HOLE = text(f"""
    SELECT j.nonce, j.request_node_id::text AS node_id
    FROM qtg.signer_journal j
    WHERE j.chain = :chain AND j.sender = :sender AND j.nonce >= {_COUNT} AND j.purpose = 'effect'
      AND (j.request_node_id <> CAST(:request_node_id AS uuid) OR EXISTS (
            SELECT 1 FROM qtg.evm_nonce_fillers f
            WHERE f.chain = j.chain AND f.sender = j.sender AND f.nonce = j.nonce))
      AND NOT EXISTS (SELECT 1 FROM qtg.evm_nonce_reservation v
                      WHERE v.chain = j.chain AND v.sender = j.sender AND v.nonce = j.nonce
                        AND v.reservation_state <> 'RELEASED')
    ORDER BY j.nonce
    LIMIT 1
""")  # noqa: S608 - our own constant

_UNUSED = """
        FROM qtg.evm_nonce_reservation v
        JOIN qtg.movement_request_nodes n ON n.id = v.request_node_id
        WHERE v.reservation_state = 'RESERVED' AND v.reserved_at < now() - make_interval(secs => :max_age)
          AND NOT EXISTS (SELECT 1 FROM qtg.movement_node_attempts a
                          WHERE a.request_node_id = v.request_node_id AND a.attempt_no = v.attempt_no)
          AND NOT EXISTS (SELECT 1 FROM qtg.signer_journal j
                          WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce)
"""
_COUNT_UNUSED = text(f"SELECT count(*) {_UNUSED}")
_REAP = text(f"""
    WITH stale AS (
        SELECT v.id, v.request_node_id, v.attempt_no, v.nonce
        {_UNUSED}
        ORDER BY v.reserved_at
        LIMIT :batch
        FOR UPDATE OF v, n SKIP LOCKED
    ),
    proof AS (
        INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts, actor)
        SELECT request_node_id, attempt_no, 'deferred',
               jsonb_build_object('released_nonce', nonce, 'because', 'no intent was ever recorded for this attempt'),
               'evm_nonce_reaper'
        FROM stale
        RETURNING id, request_node_id, attempt_no
    )
    UPDATE qtg.evm_nonce_reservation v
    SET reservation_state = 'RELEASED', released_at = now(), evidence_step_id = proof.id
    FROM stale JOIN proof USING (request_node_id, attempt_no)
    WHERE v.id = stale.id
    RETURNING v.id
""")  # noqa: S608 - our own constant


class NonceLedger:
    """Reservations of (chain, sender, nonce), one live holder each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, *, chain: str, sender: str, request_node_id: str, attempt_no: int, chain_nonce: int) -> int:
        """The nonce this attempt is to use; asking again for the same attempt gives the same nonce.

        `chain_nonce` is the sender's count in the latest block: nothing below it is ever given out. Raises `Conflict`
        while a lower nonce is held by a node that will not use it: what is sent above such a hole waits for ever, or
        goes out when nobody expects it any more. And while a nonce signed for this node earlier is being filled, or
        once its very transaction was mined: under another nonce it would be done twice.
        """
        who = {"chain": chain, "sender": sender.lower()}
        async with self._database.transaction() as transaction:
            await transaction.execute(LOCK_SENDER, who)
            attempt = {"request_node_id": request_node_id, "attempt_no": attempt_no, "chain_nonce": chain_nonce}
            own = (await transaction.execute(_OWN_OPEN, {**who, **attempt})).one_or_none()
            if own is not None:
                raise Conflict(_own_problem(own, **who))
            nonce = (await transaction.execute(_OWN, attempt)).scalar_one_or_none()
            if nonce is None:
                hole = (await transaction.execute(_HOLE, {**who, "chain_nonce": chain_nonce})).one_or_none()
                if hole is not None:
                    raise Conflict(_hole_problem(hole, **who))
                signed = (await transaction.execute(_SIGNED_HOLE, {**who, **attempt})).one_or_none()
                if signed is not None:
                    raise Conflict(
                        f"nonce {signed.nonce} of {sender} on {chain} was signed for node {signed.node_id}, which "
                        f"holds it no more; {_fill_command(nonce=signed.nonce, **who)}, and everything goes on"
                    )
                nonce = (await transaction.execute(_RESERVE, {**who, **attempt})).scalar_one()
            fault_point(FaultPoint.NONCE_RESERVE)
        return int(nonce)

    async def reap(self, *, max_age_seconds: float, batch: int = 100) -> int:
        """Release reservations that no intent ever used; returns how many.

        Only attempts that have no recorded intent and were never signed qualify: nothing can have been broadcast for
        them, and the signer is free to sign something else under the nonce. A node that is
        still being prepared keeps its nonce by being younger than `max_age_seconds`; if it is reaped all the same,
        its intent finds the reservation gone and is not recorded.
        """
        async with self._database.transaction() as transaction:
            rows = (await transaction.execute(_REAP, {"max_age": max_age_seconds, "batch": batch})).all()
            fault_point(FaultPoint.NONCE_RELEASE)
        return len(rows)

    async def count_unused(self, *, max_age_seconds: float) -> int:
        """How many reservations `reap` would release now."""
        async with self._database.transaction() as transaction:
            return int((await transaction.execute(_COUNT_UNUSED, {"max_age": max_age_seconds})).scalar_one())


def _fill_command(*, chain: str, sender: str, nonce: int) -> str:
    return f"`qtg nonce fill {chain} {sender} {nonce}` uses it up"


def _hole_problem(hole: Row[Any], *, chain: str, sender: str) -> str:
    where = f"nonce {hole.nonce} of {sender} on {chain} is held by node {hole.node_id}, which"
    if hole.filling:
        return f"{where} is {hole.node_state}, and is being filled; `qtg nonce list` tells how far that is"
    if hole.node_state == "READY":
        until = "never signed, it is released by itself, otherwise when that node has started"
        return f"{where} a breaker holds back; {until}"
    return (
        f"{where} is {hole.node_state} and will not use it. Never signed, it is released by itself; otherwise "
        f"{_fill_command(chain=chain, sender=sender, nonce=hole.nonce)}, and everything goes on"
    )


def _own_problem(own: Row[Any], *, chain: str, sender: str) -> str:
    where = f"nonce {own.nonce} of {sender} on {chain}, signed for this very node,"
    if own.used_by == "original":
        return f"{where} was used by {own.used_tx}: it is done; attach that with `qtg movement adopt`"
    if own.filling or own.reservation_state == "FILLING":
        return f"{where} is being filled; it is done again under another nonce once a final block has that"
    return f"{where} is used on the chain, by whom is not settled; `qtg nonce list` tells"
