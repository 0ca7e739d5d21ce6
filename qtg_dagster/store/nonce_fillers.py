"""Fillers of nonces: ordered, signed, sent and observed, each step a commit that the next one starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, text

from qtg_dagster.domain.nonce_chain import FeesOffered, Use
from qtg_dagster.domain.nonces import FillerState, FillKind, UsedBy
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.nonce_records import NonceRecord
from qtg_dagster.store.statements import as_json

_COLUMNS = """id, chain, sender, nonce, version, request_node_id::text AS node_id, fill_kind, filler_state, signer_key,
    raw_transaction, tx_hash, max_fee_per_gas, max_priority_fee_per_gas, ordered_by, reason, evidence"""
_OF = text(f"""
    SELECT {_COLUMNS} FROM qtg.evm_nonce_fillers
    WHERE chain = :chain AND sender = :sender AND nonce = :nonce ORDER BY version
""")  # noqa: S608 - our own constant
_OPEN = text("""
    SELECT DISTINCT chain, sender, nonce FROM qtg.evm_nonce_fillers
    WHERE filler_state IN ('ORDERED', 'PREPARED', 'SENT') AND network_class = :network_class
    ORDER BY chain, sender, nonce
""")
# The next version only while the last one is open: two people who order at once order the same.
_ORDER = text("""
    INSERT INTO qtg.evm_nonce_fillers
        (network_class, chain, sender, nonce, version, request_node_id, fill_kind, filler_state, ordered_by, reason)
    VALUES (:network_class, :chain, :sender, :nonce, :version, CAST(:node_id AS uuid), :kind, 'ORDERED', :actor,
            :reason)
    ON CONFLICT (chain, sender, nonce, version) DO NOTHING
""")
# From here on its holder cannot record an intent with it: that wants RESERVED.
_TAKE = text("""
    UPDATE qtg.evm_nonce_reservation SET reservation_state = 'FILLING'
    WHERE id = :reservation_id AND reservation_state IN ('RESERVED', 'BOUND')
""")
# A signer signs one nonce for one attempt: should the node be done again, it is another attempt.
_GIVE_UP_ATTEMPT = text("""
    UPDATE qtg.movement_request_nodes SET attempt_no = greatest(attempt_no, :attempt_no)
    WHERE id = CAST(:node_id AS uuid) AND attempt_no < :attempt_no
""")
_STEP = text("""
    INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts, actor)
    VALUES (CAST(:node_id AS uuid), :attempt_no, :kind, CAST(:facts AS jsonb), :actor)
    RETURNING id
""")
_PREPARE = text("""
    UPDATE qtg.evm_nonce_fillers
    SET filler_state = 'PREPARED', raw_transaction = :raw, tx_hash = :tx_hash, signer_key = :signer_key,
        max_fee_per_gas = :max_fee, max_priority_fee_per_gas = :tip, prepared_at = now()
    WHERE id = :id AND filler_state = 'ORDERED'
""")
_NOTE = text("""
    UPDATE qtg.evm_nonce_fillers
    SET evidence = evidence || CAST(:evidence AS jsonb),
        filler_state = CASE WHEN :accepted AND filler_state = 'PREPARED' THEN 'SENT' ELSE filler_state END,
        sent_at = CASE WHEN :accepted THEN coalesce(sent_at, now()) ELSE sent_at END
    WHERE id = :id AND filler_state IN ('ORDERED', 'PREPARED', 'SENT')
""")
_FINISH = text("""
    UPDATE qtg.evm_nonce_fillers
    SET filler_state = CASE WHEN tx_hash = :tx_hash THEN 'MINED' ELSE 'SUPERSEDED' END, finished_at = now(),
        evidence = evidence || CAST(:evidence AS jsonb)
    WHERE chain = :chain AND sender = :sender AND nonce = :nonce AND filler_state IN ('ORDERED', 'PREPARED', 'SENT')
    RETURNING id
""")
_CLOSE = text("""
    UPDATE qtg.evm_nonce_reservation
    SET reservation_state = CASE WHEN reservation_state = 'RELEASED' THEN 'RELEASED' ELSE 'CLOSED' END,
        used_by = :used_by, used_tx = :tx_hash, evidence_step_id = :step_id, standing = 'USED',
        standing_why = :why, judged_at = now()
    WHERE id = :reservation_id
""")
_TELL = text("""
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT id, 'request_attention', CAST(:payload AS jsonb), callback_url
    FROM qtg.movement_requests
    WHERE id = CAST(:request_id AS uuid) AND callback_url IS NOT NULL
""")
_LOCK_MOVEMENT = text("SELECT 1 FROM qtg.movement_requests WHERE id = CAST(:request_id AS uuid) FOR NO KEY UPDATE")
_JUDGED = text("""
    UPDATE qtg.evm_nonce_reservation SET standing = :standing, standing_why = :why, judged_at = now()
    WHERE id = :reservation_id
""")
_ACKNOWLEDGE = text("""
    UPDATE qtg.evm_nonce_reservation SET acknowledged_by = :actor
    WHERE id = :reservation_id AND used_by = 'original' AND acknowledged_by IS NULL
    RETURNING id
""")


@dataclass(frozen=True, slots=True)
class Filler:
    """One version of what fills a nonce."""

    id: int
    chain: str
    sender: str
    nonce: int
    version: int
    node_id: str
    kind: FillKind
    state: FillerState
    raw: str | None
    tx_hash: str | None
    fees: FeesOffered | None
    ordered_by: str
    reason: str
    evidence: dict[str, Any]

    def told(self) -> str:
        said = f"; a node said: {self.evidence['node_said']}" if self.evidence.get("node_said") else ""
        refused = f"; {self.evidence['problem']}" if self.evidence.get("problem") and self.raw is None else ""
        return f"{self.state} {self.tx_hash or 'not signed yet'}, ordered by {self.ordered_by}{refused or said}"


async def fillers_of(transaction: Transaction, chain: str, sender: str, nonce: int) -> list[Filler]:
    """All versions of what fills a nonce, oldest first."""
    rows = await transaction.execute(_OF, {"chain": chain, "sender": sender, "nonce": nonce})
    return [_filler(row) for row in rows.mappings()]


async def open_fillers(transaction: Transaction, network_class: str) -> list[tuple[str, str, int]]:
    """(chain, sender, nonce) of what is being filled."""
    rows = await transaction.execute(_OPEN, {"network_class": network_class})
    return [(row.chain, row.sender, row.nonce) for row in rows]


async def order_filler(
    transaction: Transaction, record: NonceRecord, kind: FillKind, *, version: int, actor: str, reason: str
) -> None:
    """Decide that a nonce is filled; one of a holder that has ended is taken from it in the same commit.

    The caller has locked the reservation and its node, and judged them as they stand under the locks.
    """
    bound = {**record.key, "node_id": record.node_id, "actor": actor, "reason": reason}
    await transaction.execute(
        _ORDER, {**bound, "network_class": record.network_class, "version": version, "kind": kind.value}
    )
    if kind is FillKind.DEAD:
        await transaction.execute(_TAKE, {"reservation_id": record.reservation_id})
        await _give_up_attempt(transaction, record)
    facts = {"filling_nonce": record.nonce, "kind": kind.value, "version": version, "reason": reason}
    await _step(transaction, record, "operator", facts, actor)


async def store_signed(
    transaction: Transaction, filler: Filler, *, raw: str, tx_hash: str, fees: FeesOffered, signer_key: str
) -> None:
    """Write the bytes ahead of their first broadcast; what somebody else stored meanwhile stays."""
    bound = {"id": filler.id, "raw": raw, "tx_hash": tx_hash, "signer_key": signer_key}
    await transaction.execute(_PREPARE, {**bound, "max_fee": fees.max_fee, "tip": fees.tip})


async def note(transaction: Transaction, filler: Filler, evidence: Mapping[str, Any], *, accepted: bool) -> None:
    """What a node answered, or why there is nothing to hand over yet."""
    await transaction.execute(_NOTE, {"id": filler.id, "evidence": as_json(dict(evidence)), "accepted": accepted})


async def lock_movement(transaction: Transaction, record: NonceRecord) -> None:
    """Before anything of a nonce is settled: whoever moves the movement's nodes, or tells its owner, locks it first."""
    await transaction.execute(_LOCK_MOVEMENT, {"request_id": record.request_id})


async def finish_nonce(transaction: Transaction, record: NonceRecord, use: Use, *, actor: str, close: bool) -> bool:
    """Record who used a nonce for good; False when somebody else has already.

    With `close` its reservation ends with that proof. Without, it stays with the node, which finds out by itself.
    """
    bound = {**record.key, "tx_hash": use.tx_hash, "evidence": as_json(dict(use.evidence))}
    finished = (await transaction.execute(_FINISH, bound)).all()
    if not finished and not close:
        return False
    facts = {"nonce": record.nonce, "used_by": use.used_by.value, **use.evidence}
    step_id = await _step(transaction, record, "observed", facts, actor)
    if close:
        await _give_up_attempt(transaction, record)
        why = f"used for good by {use.used_by}: {use.tx_hash}"
        of = {"reservation_id": record.reservation_id, "used_by": use.used_by.value, "tx_hash": use.tx_hash}
        await transaction.execute(_CLOSE, {**of, "step_id": step_id, "why": why})
    return True


async def tell_of_original(transaction: Transaction, record: NonceRecord, use: Use) -> None:
    """Tell the movement's owner that money moved although its node has ended otherwise; its movement is locked."""
    assert use.used_by is UsedBy.ORIGINAL  # noqa: S101 - said by the caller
    payload: dict[str, Any] = {
        "request_id": record.request_id,
        "node_key": record.node_key,
        "node_state": record.holder.node_state.value,
        "error_code": "SIGNED_TRANSACTION_MINED",
        "error_message": f"{use.tx_hash} was mined, signed for a node that is {record.holder.node_state}",
        "evidence": dict(use.evidence),
        "allowed_actions": [],
    }
    await transaction.execute(_TELL, {"request_id": record.request_id, "payload": as_json(payload)})


async def write_judgements(transaction: Transaction, judged: Sequence[tuple[NonceRecord, str, str]]) -> None:
    """Keep how nonces stood when their chains were last asked: (record, standing, why)."""
    rows = [{"reservation_id": record.reservation_id, "standing": s, "why": why} for record, s, why in judged]
    if rows:
        await transaction.execute(_JUDGED, rows)


async def acknowledge_original(transaction: Transaction, record: NonceRecord, *, actor: str) -> bool:
    """A person has dealt with it; False when there is nothing to deal with."""
    bound = {"reservation_id": record.reservation_id, "actor": actor}
    return (await transaction.execute(_ACKNOWLEDGE, bound)).one_or_none() is not None


async def _give_up_attempt(transaction: Transaction, record: NonceRecord) -> None:
    await transaction.execute(_GIVE_UP_ATTEMPT, {"node_id": record.node_id, "attempt_no": record.attempt_no})


async def _step(transaction: Transaction, record: NonceRecord, kind: str, facts: Mapping[str, Any], actor: str) -> int:
    bound = {"node_id": record.node_id, "attempt_no": record.attempt_no, "kind": kind, "actor": actor}
    return int((await transaction.execute(_STEP, {**bound, "facts": as_json(dict(facts))})).scalar_one())


def _filler(row: RowMapping) -> Filler:
    offered = row["max_fee_per_gas"] is not None
    return Filler(
        id=row["id"],
        chain=row["chain"],
        sender=row["sender"],
        nonce=row["nonce"],
        version=row["version"],
        node_id=row["node_id"],
        kind=FillKind(row["fill_kind"]),
        state=FillerState(row["filler_state"]),
        raw=row["raw_transaction"],
        tx_hash=row["tx_hash"],
        fees=FeesOffered(int(row["max_fee_per_gas"]), int(row["max_priority_fee_per_gas"])) if offered else None,
        ordered_by=row["ordered_by"],
        reason=row["reason"],
        evidence=dict(row["evidence"]),
    )
