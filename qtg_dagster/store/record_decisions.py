"""People's decisions about transfers on venues' records, as statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.cex_transfers import Change, TransferStatus
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.statements import as_json

_ACKNOWLEDGE = text("""
    UPDATE qtg.cex_transfers
    SET acknowledged_by = :actor, acknowledged_at = now(), acknowledge_reason = :reason
    WHERE network_class = :network_class AND matched_node_id IS NULL AND acknowledged_at IS NULL
      AND (id = ANY (CAST(:numbers AS bigint[]))
           OR (venue_key = CAST(:venue_key AS text) AND occurred_at < CAST(:before AS timestamptz)))
    RETURNING id
""")
_DISPUTED = text("""
    SELECT id, status, raw_status, tx_id, amount::text, fee::text, confirmations, disputed_status, disputed_raw_status,
           content_hash, raw
    FROM qtg.cex_transfers WHERE network_class = :network_class AND id = :id AND disputed_status IS NOT NULL FOR UPDATE
""")
# What ours stands against is remembered by its hash: the same row disputes it no more.
_SETTLE = text("""
    UPDATE qtg.cex_transfers
    SET status = CASE WHEN :venues THEN disputed_status ELSE status END,
        raw_status = CASE WHEN :venues THEN disputed_raw_status ELSE raw_status END,
        disputed_hash = CASE WHEN :venues THEN NULL ELSE disputed_hash END,
        disputed_status = NULL, disputed_raw_status = NULL, disputed_at = NULL,
        settled_by = :actor, settled_at = clock_timestamp(), changed_at = now()
    WHERE id = :id
""")
_EVENT = text("""
    INSERT INTO qtg.cex_transfer_events (transfer_id, changes, before, after, content_hash, raw, actor)
    VALUES (:id, ARRAY[:change], CAST(:before AS jsonb), CAST(:after AS jsonb), :content_hash, CAST(:raw AS jsonb),
            :actor)
""")


@dataclass(frozen=True, slots=True)
class Disputed:
    """A transfer with two ends."""

    row: Any

    @property
    def ours(self) -> str:
        return str(self.row.status)

    @property
    def theirs(self) -> str:
        return str(self.row.disputed_status)

    @property
    def is_final(self) -> bool:
        return TransferStatus(self.theirs).is_final


async def acknowledge(
    transaction: Transaction,
    network_class: str,
    *,
    numbers: Sequence[int],
    venue_key: str | None,
    before: datetime | None,
    actor: str,
    reason: str,
) -> list[int]:
    """Write who answers for unmatched transfers; their numbers."""
    bound = {
        "network_class": network_class,
        "numbers": list(numbers),
        "venue_key": venue_key,
        "before": before,
        "actor": actor,
        "reason": reason,
    }
    return sorted(row.id for row in await transaction.execute(_ACKNOWLEDGE, bound))


async def lock_disputed(transaction: Transaction, network_class: str, number: int) -> Disputed | None:
    """A disputed transfer, held until the transaction ends."""
    found = await transaction.execute(_DISPUTED, {"network_class": network_class, "id": number})
    row = found.one_or_none()
    return None if row is None else Disputed(row)


async def settle(transaction: Transaction, disputed: Disputed, *, venues: bool, actor: str) -> None:
    """Let one end stand, and tell of it."""
    row = disputed.row
    facts = {name: getattr(row, name) for name in ("tx_id", "amount", "fee", "confirmations")}
    before = {**facts, "status": row.status, "raw_status": row.raw_status}
    after = {**before, **({"status": disputed.theirs, "raw_status": row.disputed_raw_status} if venues else {})}
    await transaction.execute(_SETTLE, {"id": row.id, "venues": venues, "actor": actor})
    await transaction.execute(
        _EVENT,
        {
            "id": row.id,
            "change": Change.SETTLED.value,
            "before": as_json(before),
            "after": as_json(after),
            "content_hash": row.content_hash,
            "raw": as_json(row.raw),
            "actor": actor,
        },
    )
