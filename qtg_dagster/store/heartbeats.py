"""Workers say that they live: attempt, outcome, duration and last success, kept apart."""

from __future__ import annotations

from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.statements import native


class Heartbeats(OnDatabase):
    """Where workers say that they live."""

    async def beat(
        self,
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
            "duration_ms": float(duration_ms),
            "items": items,
            "error": redact_text(f"{type(error).__name__}: {error}") if error is not None else None,
        }
        async with self._database.connection() as connection:
            await connection.execute(native("beat"), bound)
