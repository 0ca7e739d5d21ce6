"""How much waits to be called off because nobody decided in time."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.store.database import Database

_DUE = text("""
    SELECT (SELECT count(*) FROM qtg.movement_requests
            WHERE request_state = 'PENDING_APPROVAL' AND expires_at <= now() AND network_class = :network_class
           ) AS requests,
           (SELECT count(*) FROM qtg.template_proposals
            WHERE proposal_state = 'PENDING' AND expires_at <= now() AND network_class = :network_class
           ) AS proposals
""")


async def count_due(database: Database, network_class: str) -> tuple[int, int]:
    """Movements and template proposals whose window has closed undecided; indexes answer."""
    async with database.transaction() as transaction:
        row = (await transaction.execute(_DUE, {"network_class": network_class})).one()
    return int(row.requests), int(row.proposals)
