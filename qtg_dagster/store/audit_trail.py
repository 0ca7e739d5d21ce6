"""The audit trail as people look at it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from psycopg.rows import tuple_row

from qtg_dagster.domain.audit_chain import AuditEvent
from qtg_dagster.store.database import Database


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; None is anything. A time without a zone is UTC."""

    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None


_COLUMNS = """
    SELECT previous_hash, network_class, sequence, outbox_id,
           to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           to_char(promoted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           actor, action, subject_type, subject_id, details::text, row_hash
    FROM qtg.audit_events WHERE network_class = %(network_class)s
"""
#: Only what is asked for is in the statement: each shape of it gets a plan, and an index, of its own.
_CONDITIONS = {
    "subject": "subject_id = %(subject)s",
    "actor": "actor = %(actor)s",
    "action": "action = %(action)s",
    "since": "occurred_at >= %(since)s",
}


async def list_events(database: Database, network_class: str, wanted: Wanted, *, most: int) -> list[AuditEvent]:
    """The newest events of that kind, oldest first."""
    asked = {name: value for name, value in asdict(wanted).items() if value is not None}
    if wanted.since is not None and wanted.since.tzinfo is None:
        asked["since"] = wanted.since.replace(tzinfo=UTC)
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in asked)
    sql = f"{_COLUMNS}{conditions} ORDER BY sequence DESC LIMIT %(most)s"
    async with database.connection() as connection:
        cursor = connection.cursor(row_factory=tuple_row)
        found = await cursor.execute(sql.encode(), {"network_class": network_class, "most": most, **asked})
        rows = await found.fetchall()
    return [AuditEvent._make(row) for row in reversed(rows)]
