"""How much work waits, for sensors and for drains that think of ending."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.domain.workers import Backlog
from qtg_dagster.store.database import OnDatabase

# One look per kind, each over its own partial index: finished nodes, however many, are never read.
_COUNT = text("""
    SELECT
        (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
         WHERE n.node_state = 'READY' AND n.node_kind <> 'manual'
           AND r.request_state IN ('APPROVED', 'EXECUTING') AND r.network_class = :network_class
           AND NOT EXISTS (SELECT 1 FROM qtg.movement_request_nodes failed
                           WHERE failed.request_id = n.request_id AND failed.node_state = 'FAILED')
           AND coalesce(n.next_look_at, now()) <= now() + make_interval(secs => :horizon)) AS dispatch,
        (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
         WHERE n.node_state IN ('SUBMITTED', 'OBSERVING')
           AND r.request_state = 'EXECUTING' AND r.network_class = :network_class
           AND coalesce(n.next_look_at, now()) <= now() + make_interval(secs => :horizon)) AS observe,
        (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
         WHERE n.node_state IN ('UNKNOWN', 'SUBMITTING')
           AND r.request_state = 'EXECUTING' AND r.network_class = :network_class
           AND (n.node_state = 'SUBMITTING'
                OR coalesce(n.next_look_at, now()) <= now() + make_interval(secs => :horizon))) AS recover
""")


class Backlogs(OnDatabase):
    """How many nodes wait."""

    async def count_backlog(self, network_class: str, *, horizon_seconds: float = 0) -> Backlog:
        """Count waiting nodes; those that fall due within `horizon_seconds` count as waiting."""
        async with self._database.transaction() as transaction:
            row = (
                await transaction.execute(_COUNT, {"network_class": network_class, "horizon": horizon_seconds})
            ).one()
        return Backlog(row.dispatch, row.observe, row.recover)
