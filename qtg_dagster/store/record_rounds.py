"""When venues' records were read last, and which days want to be read again. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from sqlalchemy import text

from qtg_dagster.domain.cex_transfers import FINAL_STATUSES
from qtg_dagster.store.database import Transaction

_FINAL = ", ".join(f"'{status}'" for status in sorted(FINAL_STATUSES))
# A rescan that was cut off has not read today, which comes last.
_LAST = text("""
    SELECT venue_key, purpose,
           max(began_at) FILTER (WHERE problem IS NULL AND last_day >= (began_at AT TIME ZONE 'UTC')::date) AS read_at,
           max(began_at) FILTER (WHERE problem IS NOT NULL) AS failed_at
    FROM qtg.cex_transfer_readings
    WHERE network_class = :network_class AND venue_key = ANY (CAST(:venues AS text[]))
      AND began_at > now() - interval '15 days'
    GROUP BY venue_key, purpose
""")
_UNFINISHED = text(f"""
    WITH days AS (
        SELECT venue_key, account, (occurred_at AT TIME ZONE 'UTC')::date AS day, max(occurred_at) AS since,
               false AS incomplete
        FROM qtg.cex_transfers
        WHERE network_class = :network_class AND venue_key = ANY (CAST(:venues AS text[])) AND status NOT IN ({_FINAL})
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT venue_key, account, day, changed_at, true FROM qtg.cex_transfer_days
        WHERE network_class = :network_class AND venue_key = ANY (CAST(:venues AS text[]))
          AND day_state = 'INCOMPLETE'
    )
    SELECT d.venue_key, d.day, max(d.since) AS since, max(r.looked_at) AS looked_at, bool_or(d.incomplete) AS incomplete
    FROM days d
    CROSS JOIN LATERAL (
        SELECT max(began_at) AS looked_at FROM qtg.cex_transfer_readings r
        WHERE r.network_class = :network_class AND r.venue_key = d.venue_key AND r.account = d.account
          AND d.day BETWEEN r.first_day AND r.last_day
    ) r
    GROUP BY d.venue_key, d.day
    ORDER BY d.day
""")  # noqa: S608 - our own constants


@dataclass
class LastReadings:
    """The newest reading of each purpose that was whole, and that was not."""

    read: dict[str, datetime] = field(default_factory=dict)
    failed: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnfinishedDay:
    """A day with transfers that have not ended, or that could not be read whole; since when, and looked at when."""

    venue_key: str
    day: date
    since: datetime
    looked_at: datetime | None
    incomplete: bool


async def last_readings(transaction: Transaction, network_class: str, venues: Sequence[str]) -> dict[str, LastReadings]:
    """How each venue's record was read last."""
    found = {venue: LastReadings() for venue in venues}
    for row in await transaction.execute(_LAST, {"network_class": network_class, "venues": list(venues)}):
        if row.read_at is not None:
            found[row.venue_key].read[row.purpose] = row.read_at
        if row.failed_at is not None:
            found[row.venue_key].failed[row.purpose] = row.failed_at
    return found


async def unfinished_days(transaction: Transaction, network_class: str, venues: Sequence[str]) -> list[UnfinishedDay]:
    """Days to be followed up, oldest first."""
    rows = await transaction.execute(_UNFINISHED, {"network_class": network_class, "venues": list(venues)})
    return [UnfinishedDay(*row) for row in rows]
