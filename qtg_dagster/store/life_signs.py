"""Reading how workers do: their heartbeats, which of them live, and how long one that fails still waits."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import text

from qtg_dagster.domain.observation import error_backoff
from qtg_dagster.domain.workers import Heartbeat
from qtg_dagster.store.database import Database

_SEED = text("""
    INSERT INTO qtg.worker_heartbeats (network_class, worker) VALUES (:network_class, :worker) ON CONFLICT DO NOTHING
""")
_READ = text("""
    SELECT worker, last_attempt_at, last_success_at, last_outcome, last_duration_ms, last_items, consecutive_errors,
           last_error
    FROM qtg.worker_heartbeats WHERE network_class = :network_class
""")
_ALIVE = text("""
    SELECT DISTINCT kind FROM qtg.runners
    WHERE network_class = :network_class AND end_reason IS DISTINCT FROM 'finished' AND ended_at IS NULL
      AND id IN (SELECT runner_id FROM qtg.live_runners)
""")
_PAUSE = text("""
    SELECT consecutive_errors,
           extract(epoch FROM clock_timestamp() - last_attempt_at)
             + coalesce(last_duration_ms, 0) / 1000 AS since_attempt_began
    FROM qtg.worker_heartbeats
    WHERE network_class = :network_class AND worker = :worker AND last_attempt_at IS NOT NULL
""")


async def read_heartbeats(database: Database, network_class: str) -> dict[str, Heartbeat]:
    """The heartbeat of every worker that was ever expected here, by name."""
    async with database.transaction() as transaction:
        rows = (await transaction.execute(_READ, {"network_class": network_class})).mappings().all()
    return {row["worker"]: Heartbeat(**row) for row in rows}


async def live_kinds(database: Database, network_class: str) -> set[str]:
    """Kinds of runners of which at least one is alive."""
    async with database.transaction() as transaction:
        return {row.kind for row in (await transaction.execute(_ALIVE, {"network_class": network_class})).all()}


async def pause_left(database: Database, network_class: str, worker: str) -> tuple[float, int]:
    """Seconds that a failing worker still has to wait before its next pass, and its errors in a row."""
    async with database.transaction() as transaction:
        row = (await transaction.execute(_PAUSE, {"network_class": network_class, "worker": worker})).first()
    if row is None:
        return 0.0, 0
    return max(0.0, error_backoff(row.consecutive_errors) - float(row.since_attempt_began)), row.consecutive_errors


async def seed_heartbeats(database: Database, network_class: str, workers: Iterable[str]) -> None:
    """Make a row for every expected worker, so that one that never ran can be seen."""
    async with database.transaction() as transaction:
        for worker in workers:
            await transaction.execute(_SEED, {"network_class": network_class, "worker": worker})
