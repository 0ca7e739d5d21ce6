"""What verifications of the audit chain found. Others read from here that it failed: `audit_chain_problem`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from qtg_dagster.domain.audit_chain import Head
from qtg_dagster.store.database import Database
from qtg_dagster.store.pool import Connection

_COLUMNS = "verified_at, complete, rows_read, head_sequence, head_hash, problem"
_LAST = f"""SELECT {_COLUMNS}, verified_at > now() - interval '20 hours' AS recent FROM qtg.audit_verifications
    WHERE network_class = %(network_class)s ORDER BY id DESC LIMIT 1""".encode()  # noqa: S608 - our own constant
_LAST_GOOD = f"""SELECT {_COLUMNS}, true AS recent FROM qtg.audit_verifications
    WHERE network_class = %(network_class)s AND problem IS NULL ORDER BY id DESC LIMIT 1""".encode()  # noqa: S608
_COMPLETE_SINCE = b"""SELECT count(*) AS many FROM qtg.audit_verifications
    WHERE network_class = %(network_class)s AND complete AND verified_at > now() - make_interval(secs => %(seconds)s)"""
_WRITE = b"""INSERT INTO qtg.audit_verifications
        (network_class, complete, rows_read, head_sequence, head_hash, problem)
    VALUES (%(network_class)s, %(complete)s, %(rows_read)s, %(head_sequence)s, %(head_hash)s, %(problem)s)
    RETURNING verified_at"""


@dataclass(frozen=True, slots=True)
class Verification:
    """One verification: how far it came, and the first thing that was wrong."""

    verified_at: datetime
    complete: bool
    rows_read: int
    head: Head
    problem: str | None
    recent: bool  # young enough that every entry promoted since must still be in the outbox


async def audit_chain_problem(database: Database, network_class: str) -> str | None:
    """What the last verification of the audit chain found wrong; None when it found nothing, or there was none yet.

    Once something is wrong it stays so until a verification of the whole chain finds nothing. Readable by `qtg_app`,
    `qtg_sender` and `qtg_readonly`. For whoever tells people: a text that is not None is to be told, as an error.
    """
    last = await last_verification(database, network_class)
    return last.problem if last is not None else None


async def last_verification(database: Database, network_class: str) -> Verification | None:
    """The newest verification of a chain, whatever it found."""
    return await _read(database, _LAST, network_class)


async def last_good_verification(database: Database, network_class: str) -> Verification | None:
    """The newest verification of a chain that found nothing wrong."""
    return await _read(database, _LAST_GOOD, network_class)


async def verified_completely(database: Database, network_class: str, *, within_seconds: float) -> bool:
    """Whether the chain was read from its first row within that time."""
    bound = {"network_class": network_class, "seconds": within_seconds}
    async with database.connection() as connection:
        row = await (await connection.execute(_COMPLETE_SINCE, bound)).fetchone()
    return row is not None and row["many"] > 0


async def record_verification(
    database: Database, network_class: str, *, complete: bool, rows_read: int, head: Head, problem: str | None
) -> datetime:
    """Note what a verification found; gives the database's time of it."""
    bound = {
        "network_class": network_class,
        "complete": complete,
        "rows_read": rows_read,
        "head_sequence": head.sequence,
        "head_hash": head.row_hash,
        "problem": problem,
    }
    async with database.connection() as connection:
        return _time(await _one(connection, _WRITE, bound))


async def _one(connection: Connection, sql: bytes, bound: dict[str, Any]) -> dict[str, Any]:
    row = await (await connection.execute(sql, bound)).fetchone()
    assert row is not None  # noqa: S101 - RETURNING gives a row
    return row


def _time(row: dict[str, Any]) -> datetime:
    found: datetime = row["verified_at"]
    return found


async def _read(database: Database, sql: bytes, network_class: str) -> Verification | None:
    async with database.connection() as connection:
        row = await (await connection.execute(sql, {"network_class": network_class})).fetchone()
    if row is None:
        return None
    head = Head(row["head_sequence"], row["head_hash"])
    return Verification(row["verified_at"], row["complete"], row["rows_read"], head, row["problem"], row["recent"])
