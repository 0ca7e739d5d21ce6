"""Signs of life of each worker: attempt, outcome, duration and last success, kept apart."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import text

from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.store.database import Database

_SEED = text("""
    INSERT INTO qtg.worker_heartbeats (network_class, worker) VALUES (:network_class, :worker) ON CONFLICT DO NOTHING
""")
_BEAT = text("""
    INSERT INTO qtg.worker_heartbeats AS w
        (network_class, worker, last_attempt_at, last_success_at, last_outcome, last_duration_ms, last_items,
         consecutive_errors, last_error)
    VALUES (:network_class, :worker, now(), CASE WHEN CAST(:error AS text) IS NULL THEN now() END,
            CASE WHEN CAST(:error AS text) IS NULL THEN 'ok' ELSE 'error' END, :duration_ms, :items,
            CASE WHEN CAST(:error AS text) IS NULL THEN 0 ELSE 1 END, CAST(:error AS text))
    ON CONFLICT (network_class, worker) DO UPDATE
    SET last_attempt_at = excluded.last_attempt_at,
        last_success_at = coalesce(excluded.last_success_at, w.last_success_at),
        last_outcome = excluded.last_outcome, last_duration_ms = excluded.last_duration_ms,
        last_items = excluded.last_items, last_error = excluded.last_error,
        consecutive_errors = CASE WHEN excluded.last_error IS NULL THEN 0 ELSE w.consecutive_errors + 1 END
""")


async def seed_heartbeats(database: Database, network_class: str, workers: Iterable[str]) -> None:
    """Make a row for every expected worker, so that one that never ran can be seen."""
    async with database.transaction() as transaction:
        for worker in workers:
            await transaction.execute(_SEED, {"network_class": network_class, "worker": worker})


async def beat(
    database: Database,
    network_class: str,
    worker: str,
    *,
    duration_ms: float,
    items: int,
    error: BaseException | None = None,
) -> None:
    """Record one pass of a worker, failed when `error` is given."""
    bound = {
        "network_class": network_class,
        "worker": worker,
        "duration_ms": duration_ms,
        "items": items,
        "error": redact_text(f"{type(error).__name__}: {error}") if error is not None else None,
    }
    async with database.transaction() as transaction:
        await transaction.execute(_BEAT, bound)
