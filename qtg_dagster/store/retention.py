"""Deleting what has settled, a batch a call; reading what is past its window, what holds it, and what stayed of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.errors import NotFound
from qtg_dagster.domain.retention import Kind, Tombstone
from qtg_dagster.store.database import Database, OnDatabase, Transaction
from qtg_dagster.store.decision_rows import is_request_id
from qtg_dagster.store.schema.retention_rules import HOLDS, RULES, SETTLED
from qtg_dagster.store.urls import with_options

#: Before any movement.
BEGINNING = (datetime(1970, 1, 1, tzinfo=UTC), "00000000-0000-0000-0000-000000000000")
#: A deletion that a crash takes back is done again: nobody waits for its flush, and it waits for nobody's.
_UNHURRIED = "-csynchronous_commit=off -clock_timeout=1s -capplication_name=qtg-retention"


def open_deletions(url: str) -> Database:
    """The database as the pass that deletes uses it: one connection, whose commits wait for no disk."""
    return Database(with_options(url, _UNHURRIED), pool_size=1)


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """What one call did about whole movements."""

    examined: int
    deleted: int
    held: int
    locked: int
    failed: int
    problem: str
    counts: dict[str, int]
    last: tuple[datetime, str]


class Deletions(OnDatabase):
    """Calls the functions that delete; the role needs no other right."""

    async def rows(self, kind: Kind, keep: timedelta, batch: int) -> int:
        """Delete up to `batch` settled rows of a kind, oldest first, but those that somebody works on."""
        async with self._database.connection() as connection:
            statement = f"SELECT qtg.{kind.function}(%(keep)s, %(batch)s) AS gone"
            cursor = await connection.execute(statement.encode(), {"keep": keep, "batch": batch})
            row = await cursor.fetchone()
        assert row is not None  # noqa: S101 - a function gives one row
        return int(row["gone"])

    async def movements(self, keep: timedelta, after: tuple[datetime, str], batch: int) -> TreeBatch:
        """Look at the next `batch` movements past their window and delete, whole, those that are settled."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                b"SELECT * FROM qtg.retain_movements(%(keep)s, CAST(%(at)s AS timestamptz), CAST(%(id)s AS uuid), "
                b"%(batch)s)",
                {"keep": keep, "at": after[0], "id": after[1], "batch": batch},
            )
            row = await cursor.fetchone()
        assert row is not None  # noqa: S101 - a function gives one row
        last = (row.pop("last_at"), str(row.pop("last_id")))
        return TreeBatch(**{**row, "problem": row["problem"] or ""}, last=last)


@dataclass(frozen=True, slots=True)
class Past:
    """How many of a kind are past a window and could go, at most as many as were asked for, and the oldest."""

    count: int
    oldest: datetime | None


_GIVEN = "FROM (SELECT CAST(:keep AS interval) AS keep) AS given"


async def settled_rows(transaction: Transaction, kind: Kind, keep: timedelta, most: int) -> Past:
    """Rows of a kind that could go; of movements, among the `most` oldest."""
    if kind is Kind.MOVEMENTS:
        statement = f"""
            SELECT count(*) AS many, min(r.finished_at) AS oldest {_GIVEN}, LATERAL (
                SELECT t.* FROM qtg.movement_requests t
                WHERE t.finished_at IS NOT NULL AND t.finished_at < now() - keep
                ORDER BY t.finished_at, t.id LIMIT :most) AS r
            WHERE EXISTS (SELECT FROM qtg.movement_requests t WHERE t.id = r.id AND {SETTLED})"""  # noqa: S608
    else:
        rule = RULES[kind]
        statement = f"""
            SELECT count(*) AS many, min(r.since) AS oldest {_GIVEN}, LATERAL (
                SELECT {rule.when} AS since FROM {rule.source} LIMIT :most) AS r"""  # noqa: S608 - our own constants
    row = (await transaction.execute(text(statement), {"keep": keep, "most": most})).one()
    return Past(int(row.many), row.oldest)


async def movements_after(transaction: Transaction, keep: timedelta, after: tuple[datetime, str], most: int) -> int:
    """Movements past their window behind a place, at most `most`."""
    statement = text(f"""
        SELECT count(*) {_GIVEN}, LATERAL (
            SELECT FROM qtg.movement_requests t
            WHERE t.finished_at IS NOT NULL AND t.finished_at < now() - keep
              AND (t.finished_at, t.id) > (CAST(:at AS timestamptz), CAST(:id AS uuid))
            LIMIT :most) AS r""")  # noqa: S608 - our own constant
    bound = {"keep": keep, "at": after[0], "id": after[1], "most": most}
    return int((await transaction.execute(statement, bound)).scalar_one())


@dataclass(frozen=True, slots=True)
class Held:
    """Why movements that are past their window stay: reason -> how many, and one of them."""

    looked_at: int
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict)


async def held_movements(transaction: Transaction, keep: timedelta, most: int) -> Held:
    """Why the oldest movements past their window stay."""
    asked = ", ".join(f"{hold} AS hold_{number}" for number, hold in enumerate(HOLDS.values()))
    counted = ", ".join(
        f"count(*) FILTER (WHERE hold_{n}) AS count_{n}, min(id::text) FILTER (WHERE hold_{n}) AS one_{n}"
        for n in range(len(HOLDS))
    )
    statement = text(f"""
        SELECT count(*) AS looked_at, {counted} {_GIVEN}, LATERAL (
            SELECT t.id, {asked} FROM qtg.movement_requests t
            WHERE t.finished_at IS NOT NULL AND t.finished_at < now() - keep
            ORDER BY t.finished_at, t.id LIMIT :most) AS r""")  # noqa: S608 - our own constants
    row: Any = (await transaction.execute(statement, {"keep": keep, "most": most})).mappings().one()
    reasons = {
        reason: (int(row[f"count_{n}"]), str(row[f"one_{n}"])) for n, reason in enumerate(HOLDS) if row[f"count_{n}"]
    }
    return Held(int(row["looked_at"]), reasons)


async def read_tombstone(transaction: Transaction, network_class: str, request_id: str) -> Tombstone:
    """What stayed of a movement; raises `NotFound`."""
    row = None
    if is_request_id(request_id):
        statement = text("""
            SELECT request_id::text AS request_id, network_class, idempotency_key, body_hash, template_key,
                   template_version, compiled_plan_hash, approval_digest, request_state, requested_by, approved_by,
                   rejected_by, nodes, created_at, approved_at, finished_at, expires_at, deleted_at
            FROM qtg.movement_tombstones
            WHERE request_id = CAST(:request_id AS uuid) AND network_class = :network_class
        """)
        bound = {"request_id": request_id, "network_class": network_class}
        row = (await transaction.execute(statement, bound)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"nothing was deleted of a movement {request_id!r} in network class {network_class}")
    return Tombstone(**{**row, "approved_by": tuple(row["approved_by"]), "rejected_by": tuple(row["rejected_by"])})
