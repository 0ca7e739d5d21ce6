"""Scheduled windows: each is served at most once, whoever comes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.store.database import Database
from qtg_dagster.store.statements import as_json

_BEGIN = text("""
    INSERT INTO qtg.cycles (network_class, worker, cycle_key) VALUES (:network_class, :worker, :cycle_key)
    ON CONFLICT DO NOTHING
    RETURNING cycle_key
""")
_FINISH = text("""
    UPDATE qtg.cycles SET result = CAST(:result AS jsonb)
    WHERE network_class = :network_class AND worker = :worker AND cycle_key = :cycle_key
""")

# Keys of windows are their starts; others, such as those of passes by hand, are no windows.
_MISSED = text("""
    WITH first AS (
        SELECT min(cycle_key)::timestamptz AS window_start FROM qtg.cycles
        WHERE network_class = :network_class AND worker = :worker AND cycle_key ~ '^\\d{4}-\\d{2}-\\d{2}T'
    ),
    missed AS (
        SELECT start, row_number() OVER (ORDER BY start) AS place, count(*) OVER () AS total
        FROM first, generate_series(first.window_start, :before - make_interval(secs => :interval),
                                    make_interval(secs => :interval)) AS start
        WHERE NOT EXISTS (
            SELECT 1 FROM qtg.cycles c
            WHERE c.network_class = :network_class AND c.worker = :worker
              AND c.cycle_key = to_char(start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
    )
    SELECT start, total FROM missed WHERE place <= :most + 1 ORDER BY start
""")


@dataclass(frozen=True, slots=True)
class MissedWindows:
    """Starts of the oldest windows that nobody served, how many there are in all, and the first beyond the oldest."""

    oldest: tuple[datetime, ...]
    total: int
    next_after: datetime | None


async def begin_cycle(database: Database, network_class: str, worker: str, cycle_key: str) -> bool:
    """Take a window; False when it was taken before, even by a process that died in it."""
    bound = {"network_class": network_class, "worker": worker, "cycle_key": cycle_key}
    async with database.transaction() as transaction:
        return (await transaction.execute(_BEGIN, bound)).first() is not None


async def finish_cycle(
    database: Database, network_class: str, worker: str, cycle_key: str, result: Mapping[str, Any]
) -> None:
    """Note what came of a window."""
    bound = {"network_class": network_class, "worker": worker, "cycle_key": cycle_key, "result": as_json(dict(result))}
    async with database.transaction() as transaction:
        await transaction.execute(_FINISH, bound)


async def missed_windows(
    database: Database, network_class: str, worker: str, *, before: datetime, interval_seconds: int, most: int
) -> MissedWindows:
    """Windows between the first that the worker ever served and `before` that nobody took; at most `most` by name."""
    bound = {
        "network_class": network_class,
        "worker": worker,
        "before": before,
        "interval": float(interval_seconds),
        "most": most,
    }
    async with database.transaction() as transaction:
        rows = (await transaction.execute(_MISSED, bound)).all()
    starts = tuple(row.start for row in rows)
    return MissedWindows(starts[:most], rows[0].total if rows else 0, starts[most] if len(starts) > most else None)
