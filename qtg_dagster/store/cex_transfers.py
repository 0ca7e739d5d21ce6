"""Writing a venue's record: new rows, changed ones, and what each change was. What is the same is not written again."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import psycopg
from sqlalchemy import text

from qtg_dagster.domain.cex_transfers import (
    Effect,
    Facts,
    SeenTransfer,
    StoredTransfer,
    TransferKind,
    TransferStatus,
    Verdict,
    judge,
)
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.record_days import day_of
from qtg_dagster.store.database import Database, Transaction
from qtg_dagster.store.statements import as_json

#: First key of the two-key advisory lock of whoever reads a venue account's record.
RECORD_LOCK_CLASS = 5329993
_ROW = """id bigint, kind text, row_key text, coin text, network text, address text, memo text, client_id text,
    tx_id text, amount numeric, fee numeric, status text, raw_status text, status_listed boolean, confirmations text,
    internal boolean, occurred_at timestamptz, raw jsonb, content_hash text, disputed_status text, disputed_hash text,
    disputed_raw_status text"""
_COLUMNS = (
    "coin, network, address, memo, client_id, tx_id, amount, fee, status, raw_status, status_listed, confirmations, "
    "internal, occurred_at, raw, content_hash"
)
_STORED = text("""
    SELECT t.id, t.kind, t.row_key, t.status, t.raw_status, t.tx_id, t.amount, t.fee, t.confirmations, t.content_hash,
           t.disputed_status, t.disputed_hash
    FROM unnest(CAST(:kinds AS text[]), CAST(:keys AS text[])) AS k (kind, row_key)
    CROSS JOIN LATERAL (
        SELECT * FROM qtg.cex_transfers c
        WHERE c.network_class = :network_class AND c.venue_key = :venue_key AND c.account = :account
          AND c.kind = k.kind AND c.row_key = k.row_key
        LIMIT 1 FOR UPDATE) AS t
""")
_INSERT = text(f"""
    INSERT INTO qtg.cex_transfers (network_class, venue_key, account, kind, row_key, {_COLUMNS})
    SELECT :network_class, :venue_key, :account, kind, row_key, {_COLUMNS}
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r ({_ROW})
    RETURNING id, kind, row_key
""")  # noqa: S608 - our own constants
_UPDATE = text(f"""
    UPDATE qtg.cex_transfers t
    SET ({_COLUMNS}) = (SELECT {", ".join(f"r.{name.strip()}" for name in _COLUMNS.split(","))}),
        disputed_status = r.disputed_status, disputed_hash = NULL,
        disputed_raw_status = CASE WHEN r.disputed_status IS NOT NULL THEN t.disputed_raw_status END,
        disputed_at = CASE WHEN r.disputed_status IS NOT NULL THEN t.disputed_at END, changed_at = now()
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r ({_ROW})
    WHERE t.id = r.id
""")  # noqa: S608 - our own constants
_DISPUTE = text(f"""
    UPDATE qtg.cex_transfers t
    SET disputed_status = r.disputed_status, disputed_raw_status = r.disputed_raw_status,
        disputed_hash = r.disputed_hash, disputed_at = now(), changed_at = now()
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r ({_ROW})
    WHERE t.id = r.id
""")  # noqa: S608 - our own constants
_EVENTS = text("""
    INSERT INTO qtg.cex_transfer_events (transfer_id, changes, before, after, content_hash, raw)
    SELECT transfer_id, changes, before, after, content_hash, raw
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS r (transfer_id bigint, changes text[], before jsonb, after jsonb, content_hash text, raw jsonb)
    ORDER BY transfer_id
""")


@dataclass(frozen=True, slots=True)
class Place:
    """Whose record it is."""

    network_class: str
    venue_key: str
    account: str

    @property
    def bound(self) -> dict[str, Any]:
        return {"network_class": self.network_class, "venue_key": self.venue_key, "account": self.account}


@dataclass
class Written:
    """What sightings did to the record, by the UTC day of the transfers."""

    new: dict[date, int] = field(default_factory=dict)
    changed: dict[date, int] = field(default_factory=dict)
    disputed: int = 0


@asynccontextmanager
async def reading_alone(database: Database, place: Place, *, wait_seconds: float) -> AsyncIterator[None]:
    """Be the only one who reads this record, for as long as the block lasts and this process lives.

    Raises `Conflict` when somebody else goes on reading it for `wait_seconds`.
    """
    number = zlib.crc32(f"{place.network_class}:{place.venue_key}:{place.account}".encode()) & 0x7FFFFFFF
    connection = await database.direct_connection()
    try:
        await connection.execute("SELECT set_config('lock_timeout', %s, false)", [f"{int(wait_seconds * 1000) or 1}ms"])
        try:
            await connection.execute("SELECT pg_advisory_lock(%s, %s)", [RECORD_LOCK_CLASS, number])
        except psycopg.errors.LockNotAvailable:
            raise Conflict(
                f"somebody else has been reading {place.venue_key}'s record for {wait_seconds:.0f} s; try again later"
            ) from None
        yield
    finally:
        await connection.close()


async def write_sightings(transaction: Transaction, place: Place, seen: Sequence[SeenTransfer]) -> Written:
    """Write what is new about these transfers, and nothing about the others."""
    stored = await _read_stored(transaction, place, seen)
    judged = [(each, stored.get(each.identity), judge(stored.get(each.identity), each)) for each in seen]
    by_effect: dict[Effect, list[tuple[SeenTransfer, StoredTransfer | None, Verdict]]] = {}
    for one in judged:
        by_effect.setdefault(one[2].effect, []).append(one)
    ids = {key: row.id for key, row in stored.items()}
    ids |= await _insert(transaction, place, [each for each, _, _ in by_effect.get(Effect.INSERT, [])])
    updated = [one for effect in (Effect.UPDATE, Effect.AGREE, Effect.UNDISPUTE) for one in by_effect.get(effect, [])]
    for statement, rows in ((_UPDATE, updated), (_DISPUTE, by_effect.get(Effect.DISPUTE, []))):
        if rows:
            content = [_row(each, ids[each.identity], verdict) for each, _, verdict in rows]
            await transaction.execute(statement, {"rows": as_json(content)})
    events = [_event(*one, ids[one[0].identity]) for one in judged if one[2].changes]
    if events:
        await transaction.execute(_EVENTS, {"rows": as_json(events)})
    return _written(judged)


def _written(judged: Sequence[tuple[SeenTransfer, StoredTransfer | None, Verdict]]) -> Written:
    written = Written()
    for seen, _, verdict in judged:
        if verdict.effect is Effect.NOTHING:
            continue
        counts = written.new if verdict.effect is Effect.INSERT else written.changed
        day = day_of(seen.occurred_at)
        counts[day] = counts.get(day, 0) + 1
        written.disputed += verdict.effect is Effect.DISPUTE
    return written


async def _read_stored(
    transaction: Transaction, place: Place, seen: Sequence[SeenTransfer]
) -> dict[tuple[TransferKind, str], StoredTransfer]:
    bound = {"kinds": [each.kind.value for each in seen], "keys": [each.row_key for each in seen]}
    rows = await transaction.execute(_STORED, {**place.bound, **bound})
    return {
        (TransferKind(row.kind), row.row_key): StoredTransfer(
            id=row.id,
            facts=Facts(TransferStatus(row.status), row.raw_status, row.tx_id, row.amount, row.fee, row.confirmations),
            content_hash=row.content_hash,
            disputed=None if row.disputed_status is None else TransferStatus(row.disputed_status),
            disputed_hash=row.disputed_hash,
        )
        for row in rows
    }


async def _insert(
    transaction: Transaction, place: Place, seen: Sequence[SeenTransfer]
) -> dict[tuple[TransferKind, str], int]:
    if not seen:
        return {}
    rows = as_json([_row(each) for each in seen])
    found = await transaction.execute(_INSERT, {**place.bound, "rows": rows})
    return {(TransferKind(row.kind), row.row_key): row.id for row in found}


def _row(seen: SeenTransfer, number: int | None = None, verdict: Verdict | None = None) -> dict[str, Any]:
    disputed = None if verdict is None or verdict.disputed is None else verdict.disputed.value
    return {
        "id": number,
        "kind": seen.kind.value,
        "row_key": seen.row_key,
        "coin": seen.coin,
        "network": seen.network,
        "address": seen.address,
        "memo": seen.memo,
        "client_id": seen.client_id,
        "status_listed": seen.status_listed,
        "internal": seen.internal,
        "occurred_at": seen.occurred_at.isoformat(),
        "raw": dict(seen.raw),
        "content_hash": seen.content_hash,
        **seen.facts.document(),
        "disputed_status": disputed,
        "disputed_raw_status": seen.facts.raw_status,
        "disputed_hash": seen.content_hash,
    }


def _event(seen: SeenTransfer, stored: StoredTransfer | None, verdict: Verdict, number: int) -> dict[str, Any]:
    return {
        "transfer_id": number,
        "changes": [change.value for change in verdict.changes],
        "before": None if stored is None else stored.facts.document(),
        "after": seen.facts.document(),
        "content_hash": seen.content_hash,
        "raw": dict(seen.raw),
    }
