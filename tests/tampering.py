"""What the owner of a database may do to the audit trail: triggers do not bind them."""

from __future__ import annotations

import psycopg

from qtg_dagster.domain.audit_chain import AuditEvent, hash_of

_TABLES = ("audit_events", "audit_outbox", "audit_verifications")
_ROWS = """
    SELECT previous_hash, network_class, sequence, outbox_id,
           to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           to_char(promoted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           actor, action, subject_type, subject_id, details::text, row_hash
    FROM qtg.audit_events WHERE sequence >= %s ORDER BY sequence
"""


def tamper(url: str, *statements: str, rehash_from: int | None = None) -> None:
    """Run statements with no trigger in the way; then give all rows from one on hashes that fit."""
    with psycopg.connect(url) as connection:
        for table in _TABLES:
            connection.execute(f"ALTER TABLE qtg.{table} DISABLE TRIGGER USER")
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]
        if rehash_from is not None:
            _rehash(connection, rehash_from)
        for table in _TABLES:
            connection.execute(f"ALTER TABLE qtg.{table} ENABLE TRIGGER USER")


def _rehash(connection: psycopg.Connection[tuple[object, ...]], sequence: int) -> None:
    events = [AuditEvent(*row) for row in connection.execute(_ROWS, (sequence,))]  # type: ignore[arg-type]
    previous = events[0].previous_hash
    for event in events:
        fresh = hash_of(event._replace(previous_hash=previous))
        connection.execute(
            "UPDATE qtg.audit_events SET previous_hash = %s, row_hash = %s WHERE sequence = %s",
            (previous, fresh, event.sequence),
        )
        previous = fresh
