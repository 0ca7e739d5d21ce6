"""How much work waits, for sensors and for drains that think of ending."""

from __future__ import annotations

from qtg_dagster.domain.workers import Backlog
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.statements import native


class Backlogs(OnDatabase):
    """How many nodes wait."""

    async def count_backlog(self, network_class: str, *, horizon_seconds: float = 0) -> Backlog:
        """Count waiting nodes, with those due within `horizon_seconds`; below zero, those that waited for so long."""
        bound = {"network_class": network_class, "horizon": float(horizon_seconds)}
        async with self._database.connection() as connection:
            row = await (await connection.execute(native("count_backlog"), bound)).fetchone()
        assert row is not None  # noqa: S101 - counts give one row
        return Backlog(row["dispatch"], row["observe"], row["recover"])
