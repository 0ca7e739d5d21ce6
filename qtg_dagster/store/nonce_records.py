"""What is recorded of nonces that are not settled: who holds them, since when, what was signed under them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, text

from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.nonce_chain import FeesOffered, SignedBefore
from qtg_dagster.domain.nonces import Holder, ReservationState, Standing, UsedBy
from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import Transaction

_RECORD = """
    SELECT v.id, v.chain, v.sender, v.nonce, v.request_node_id::text AS node_id, v.attempt_no, v.reservation_state,
           v.reserved_at, v.used_by, v.used_tx, v.acknowledged_by, v.standing, v.standing_why, v.judged_at,
           extract(epoch FROM now() - v.reserved_at)::float AS age_seconds,
           extract(epoch FROM now() - v.judged_at)::float AS judged_seconds_ago,
           n.node_key, n.node_state, n.request_id::text AS request_id, r.request_state, r.network_class,
           n.runner_id IN (SELECT runner_id FROM qtg.live_runners) IS TRUE AS claimed,
           EXISTS (SELECT 1 FROM qtg.signer_journal j
                   WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce) AS signed,
           a.id IS NOT NULL AS recorded, a.outcome
    FROM qtg.evm_nonce_reservation v
    JOIN qtg.movement_request_nodes n ON n.id = v.request_node_id
    JOIN qtg.movement_requests r ON r.id = n.request_id
    LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = v.request_node_id AND a.attempt_no = v.attempt_no
"""
# Each part answers from a small index: what was used long ago is in none of them.
_OPEN = text(f"""
    WITH open AS (
        SELECT id FROM qtg.evm_nonce_reservation
        WHERE reservation_state IN ('RESERVED', 'FILLING') OR (used_by = 'original' AND acknowledged_by IS NULL)
        UNION
        SELECT v.id
        FROM qtg.movement_request_nodes n
        JOIN qtg.evm_nonce_reservation v ON v.request_node_id = n.id
        WHERE n.node_state IN ('SUBMITTED', 'OBSERVING') AND v.reservation_state = 'BOUND'
          AND v.attempt_no = n.attempt_no
        UNION
        SELECT v.id
        FROM qtg.movement_request_nodes n
        JOIN qtg.evm_nonce_reservation v ON v.request_node_id = n.id
        WHERE n.node_state IN ('UNKNOWN', 'SUBMITTING') AND v.reservation_state = 'BOUND'
          AND v.attempt_no = n.attempt_no
        UNION
        SELECT v.id
        FROM qtg.movement_node_attempts a
        JOIN qtg.evm_nonce_reservation v ON v.request_node_id = a.request_node_id AND v.attempt_no = a.attempt_no
        WHERE a.outcome IN ('NOT_SENT', 'REJECTED') AND v.reservation_state = 'BOUND'
        UNION
        SELECT v.id
        FROM qtg.evm_nonce_reservation v
        WHERE v.reservation_state = 'RELEASED' AND v.used_by IS NULL
          AND EXISTS (SELECT 1 FROM qtg.signer_journal j
                      WHERE j.chain = v.chain AND j.sender = v.sender AND j.nonce = v.nonce
                        AND j.request_node_id = v.request_node_id)
          AND NOT EXISTS (SELECT 1 FROM qtg.evm_nonce_reservation live
                          WHERE live.chain = v.chain AND live.sender = v.sender AND live.nonce = v.nonce
                            AND live.reservation_state <> 'RELEASED')
    )
    {_RECORD}
    WHERE v.id IN (SELECT id FROM open) AND r.network_class = :network_class AND n.node_state <> 'COMPLETED'
      AND (CAST(:chain AS text) IS NULL OR v.chain = :chain) AND (CAST(:sender AS text) IS NULL OR v.sender = :sender)
    ORDER BY v.chain, v.sender, v.nonce
""")  # noqa: S608 - our own constant
_ONE = f"""
    {_RECORD}
    WHERE r.network_class = :network_class AND v.chain = :chain AND v.sender = :sender AND v.nonce = :nonce
    ORDER BY v.reservation_state = 'RELEASED', v.id DESC
    LIMIT 1
"""
_FIND = text(_ONE)
_FIND_LOCKED = text(f"{_ONE} FOR UPDATE OF v, n NOWAIT")
# Under one nonce a node's attempts sign one effect, each at the fees of its time.
_SIGNED = text("""
    SELECT prepared -> 'provider_refs' ->> 'tx_hash' AS tx_hash,
           (prepared ->> 'payload')::jsonb -> 'transaction' ->> 'max_fee_per_gas' AS max_fee,
           (prepared ->> 'payload')::jsonb -> 'transaction' ->> 'max_priority_fee_per_gas' AS tip
    FROM qtg.movement_node_attempts
    WHERE request_node_id = CAST(:node_id AS uuid) AND prepared ->> 'signed_payload' IS NOT NULL
      AND prepared -> 'nonce_reservation' ->> 'chain' = :chain
      AND prepared -> 'nonce_reservation' ->> 'nonce' = CAST(:nonce AS text)
    ORDER BY attempt_no
""")
_EFFECTS = text("""
    SELECT effect_hash FROM qtg.signer_journal
    WHERE chain = :chain AND sender = :sender AND nonce = :nonce AND purpose = 'effect'
""")


@dataclass(frozen=True, slots=True)
class NonceRecord:
    """One nonce, with the node that it was made for."""

    reservation_id: int
    chain: str
    sender: str
    nonce: int
    node_id: str
    node_key: str
    request_id: str
    request_state: str
    network_class: str
    attempt_no: int
    reserved_at: datetime
    age_seconds: float
    holder: Holder
    used_by: UsedBy | None
    used_tx: str | None
    acknowledged_by: str | None
    standing: Standing | None
    standing_why: str | None
    judged_seconds_ago: float | None

    @property
    def key(self) -> dict[str, Any]:
        return {"chain": self.chain, "sender": self.sender, "nonce": self.nonce}

    @property
    def name(self) -> str:
        return f"{self.chain} {self.sender} {self.nonce}"


async def open_nonces(
    transaction: Transaction, network_class: str, *, chain: str | None = None, sender: str | None = None
) -> list[NonceRecord]:
    """Every nonce that is held, was signed and given up, or whose use must be told; in order."""
    bound = {"network_class": network_class, "chain": chain, "sender": sender.lower() if sender else None}
    return [_record(row) for row in (await transaction.execute(_OPEN, bound)).mappings()]


async def find_nonce(
    transaction: Transaction, network_class: str, chain: str, sender: str, nonce: int, *, lock: bool = False
) -> NonceRecord | None:
    """The live reservation, or the last released one; locked with its node, raising when somebody has either."""
    bound = {"network_class": network_class, "chain": chain, "sender": sender.lower(), "nonce": nonce}
    row = (await transaction.execute(_FIND_LOCKED if lock else _FIND, bound)).mappings().one_or_none()
    return None if row is None else _record(row)


async def signed_before(transaction: Transaction, record: NonceRecord) -> list[SignedBefore]:
    """What is stored of transactions that its node's attempts signed under it."""
    rows = await transaction.execute(_SIGNED, {**record.key, "node_id": record.node_id})
    return [SignedBefore(str(row.tx_hash), FeesOffered(int(row.max_fee), int(row.tip))) for row in rows if row.tx_hash]


async def effects_of(transaction: Transaction, record: NonceRecord) -> list[str]:
    """Hashes of the effects that signers have on record under it."""
    return list((await transaction.execute(_EFFECTS, record.key)).scalars())


def _record(row: RowMapping) -> NonceRecord:
    return NonceRecord(
        reservation_id=row["id"],
        chain=row["chain"],
        sender=row["sender"],
        nonce=row["nonce"],
        node_id=row["node_id"],
        node_key=row["node_key"],
        request_id=row["request_id"],
        request_state=row["request_state"],
        network_class=row["network_class"],
        attempt_no=row["attempt_no"],
        reserved_at=row["reserved_at"],
        age_seconds=row["age_seconds"],
        holder=Holder(
            reservation=ReservationState(row["reservation_state"]),
            signed=row["signed"],
            node_state=NodeState(row["node_state"]),
            claimed=row["claimed"],
            recorded=row["recorded"],
            outcome=AttemptOutcome(row["outcome"]) if row["outcome"] else None,
        ),
        used_by=UsedBy(row["used_by"]) if row["used_by"] else None,
        used_tx=row["used_tx"],
        acknowledged_by=row["acknowledged_by"],
        standing=Standing(row["standing"]) if row["standing"] else None,
        standing_why=row["standing_why"],
        judged_seconds_ago=row["judged_seconds_ago"],
    )
