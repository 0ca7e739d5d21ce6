"""Audit entries on their way into the chain, and the chain as it is read back.

Entries of a network class are promoted by whoever holds its lock, in the order in which they became visible; of those
that are visible together, in the order of their ids. Whoever has seen another's deed done comes behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg.rows import tuple_row

from qtg_dagster.domain.audit_chain import START, AuditEvent, Head, hash_fields
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.database import Database
from qtg_dagster.store.pool import Connection
from qtg_dagster.store.statements import native

#: First key of the lock under which the entries of one network class are promoted.
PROMOTER_LOCK_CLASS = 5329994
#: A promoter that stops in the middle is cut off by the server after so long, and another one goes on.
HUNG_SECONDS = 5
#: For so long after its promotion an entry is kept beside its event; the outbox's guard holds to it.
ENTRY_KEPT_DAYS = 1

_LOCK = b"""
    SELECT pg_try_advisory_xact_lock(%(lock)s, %(key)s) AS held,
           set_config('idle_in_transaction_session_timeout', %(hung)s, true)
"""
_WAITING = b"""
    SELECT count(*) AS waiting, extract(epoch FROM now() - min(occurred_at))::float AS oldest_seconds
    FROM (SELECT occurred_at FROM qtg.audit_outbox WHERE network_class = %(network_class)s AND promoted_at IS NULL
          ORDER BY promoted_at, id LIMIT %(most)s) AS first_ones
"""
_HEAD = b"""SELECT sequence, row_hash FROM qtg.audit_events
    WHERE network_class = %(network_class)s ORDER BY sequence DESC LIMIT 1"""


class Waiting(NamedTuple):
    """Entries that are not promoted yet, and the age of the oldest of them."""

    entries: int
    oldest_seconds: float


class EventBesideEntry(NamedTuple):
    """An event, and how the outbox entry that it was made of compares: `same`, or what is not."""

    event: AuditEvent
    entry: str


async def promote_entries(database: Database, network_class: str, most: int) -> int:
    """Promote at most so many entries in one commit; gives how many. 0 too while another promoter is at it.

    An entry and its event are bound together by that commit: whoever dies before it has promoted nothing, whoever dies
    behind it all.
    """
    bound = {"network_class": network_class, "most": most}
    async with database.connection() as connection:
        async with connection.transaction():
            if not await _lock(connection, network_class):
                return 0
            rows = await (await connection.execute(native("take_audit_entries"), bound)).fetchall()
            if rows:
                await _write(connection, rows)
                fault_point(FaultPoint.AUDIT_PROMOTE)
        if rows:
            fault_point(FaultPoint.AUDIT_PROMOTE)
    return len(rows)


async def _lock(connection: Connection, network_class: str) -> bool:
    key = zlib.crc32(network_class.encode()) & 0x7FFFFFFF
    bound = {"lock": PROMOTER_LOCK_CLASS, "key": key, "hung": f"{HUNG_SECONDS}s"}
    row = await (await connection.execute(_LOCK, bound)).fetchone()
    return row is not None and bool(row["held"])


async def _write(connection: Connection, rows: Sequence[psycopg.rows.DictRow]) -> None:
    first = rows[0]
    head = START if first["head_sequence"] is None else Head(first["head_sequence"], first["head_hash"])
    previous = [head.row_hash]
    for place, row in enumerate(rows, 1):
        previous.append(
            hash_fields(
                (
                    previous[-1],
                    row["network_class"],
                    head.sequence + place,
                    row["id"],
                    row["occurred_at"],
                    row["promoted_at"],
                    row["actor"],
                    row["action"],
                    row["subject_type"],
                    row["subject_id"],
                    row["details"],
                )
            )
        )
    bound = {
        "after": head.sequence,
        "ids": [row["id"] for row in rows],
        "previous": previous[:-1],
        "hashes": previous[1:],
    }
    done = await (await connection.execute(native("promote_audit_entries"), bound)).fetchone()
    if done is None or (done["written"], done["marked"]) != (len(rows), len(rows)):
        raise Conflict(f"audit entries changed while they were promoted: {len(rows)} were taken, {done} came of it")


async def waiting_entries(database: Database, network_class: str, *, most: int = 10_000) -> Waiting:
    """How many entries wait for promotion, counted up to so many."""
    async with database.connection() as connection:
        row = await (await connection.execute(_WAITING, {"network_class": network_class, "most": most})).fetchone()
    assert row is not None  # noqa: S101 - an aggregate gives a row
    return Waiting(row["waiting"], row["oldest_seconds"] or 0.0)


async def chain_head(database: Database, network_class: str) -> Head:
    """The last row of a chain."""
    async with database.connection() as connection:
        row = await (await connection.execute(_HEAD, {"network_class": network_class})).fetchone()
    return START if row is None else Head(row["sequence"], row["row_hash"])


async def read_events(
    database: Database, network_class: str, *, after: int, until: int, most: int, any_age: bool = True
) -> list[EventBesideEntry]:
    """A page of a chain. `any_age` lets an entry be missing once it was kept long enough."""
    bound = {
        "network_class": network_class,
        "after": after,
        "until": until,
        "most": most,
        "kept_days": ENTRY_KEPT_DAYS if any_age else 365_000,
    }
    async with database.connection() as connection:
        cursor = connection.cursor(row_factory=tuple_row)
        rows = await (await cursor.execute(native("read_audit_events"), bound)).fetchall()
    return [EventBesideEntry(AuditEvent._make(row[:-1]), row[-1]) for row in rows]


async def read_strays(database: Database, network_class: str, *, after: int, most: int) -> tuple[int | None, list[int]]:
    """(the last entry looked at, None at the end; entries that are marked as promoted and have no event)."""
    bound = {"network_class": network_class, "after": after, "most": most}
    async with database.connection() as connection:
        row = await (await connection.execute(native("read_audit_strays"), bound)).fetchone()
    assert row is not None  # noqa: S101 - an aggregate gives a row
    return row["last_id"], row["strays"] or []
