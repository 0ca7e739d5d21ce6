"""Balance snapshots: appended, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import insert, text

from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.schema.balances import balance_snapshots

_LATEST = text("""
    SELECT venue_key, max(request_ended_at) AS read_at, extract(epoch FROM now() - max(request_ended_at)) AS age
    FROM qtg.balance_snapshots
    WHERE network_class = :network_class AND recorded_at > now() - interval '2 days'
    GROUP BY venue_key
""")


@dataclass(frozen=True, slots=True)
class VenueAge:
    """When a venue's balances were read last."""

    venue_key: str
    read_at: datetime
    age_seconds: float


async def append_balances(transaction: Transaction, network_class: str, readings: Sequence[BalanceReading]) -> int:
    """Store readings; returns how many."""
    rows = [
        {
            **reading.model_dump(exclude={"free", "locked"}),
            "network_class": network_class,
            "free": Decimal(reading.free),
            "locked": Decimal(reading.locked),
        }
        for reading in readings
    ]
    if rows:
        await transaction.execute(insert(balance_snapshots).values(rows))
    return len(rows)


async def venue_ages(transaction: Transaction, network_class: str) -> dict[str, VenueAge]:
    """Venue key -> the age of its newest snapshot of the last two days."""
    rows = await transaction.execute(_LATEST, {"network_class": network_class})
    return {row.venue_key: VenueAge(row.venue_key, row.read_at, float(row.age)) for row in rows}
