"""The schedule of venues' records: what is read again now, decided from what was read last.

A round that was missed needs no making up for: the next one finds the same days due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import structlog

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.errors import ConfigurationError, Conflict
from qtg_dagster.domain.record_days import FOLLOW_UP, RETRY, Stretch, due_rescan, next_look, trailing
from qtg_dagster.domain.venue_record import RecordReader
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.record_rounds import UnfinishedDay, last_readings, unfinished_days
from qtg_dagster.treasury.record_ingest import Ingested, Order, RecordKeeper

log = structlog.get_logger("qtg.record")

#: Days that one round follows up at a venue; the rest waits for the next, a minute or two later.
_MOST_FOLLOWED = 60
_BUSY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be read of one venue's record now."""

    venue_key: str
    order: Order


@dataclass(frozen=True, slots=True)
class Round:
    """What a round came to: what was read, and why a venue was not."""

    read: tuple[Ingested, ...]
    problems: Mapping[str, str]


async def due_readings(database: Database, settings: Settings, now: datetime, run_id: str | None = None) -> list[Due]:
    """Rescans that are due and days to be followed up, of the venues that the settings name."""
    venues = settings.recorded_venues
    if not venues:
        return []
    async with database.transaction() as transaction:
        last = await last_readings(transaction, settings.network_class, venues)
        unfinished = await unfinished_days(transaction, settings.network_class, venues)
    found: list[Due] = []
    for venue in venues:
        rescan = due_rescan(now, last[venue].read, last[venue].failed)
        stretch = None if rescan is None else trailing(now, rescan.days)
        if rescan is not None and stretch is not None:
            found.append(Due(venue, Order(stretch.days, rescan.purpose, run_id)))
        followed = _due_days([day for day in unfinished if day.venue_key == venue], stretch, now)
        if followed:
            found.append(Due(venue, Order(followed, FOLLOW_UP, run_id)))
    return found


async def count_due_readings(database: Database, settings: Settings) -> int:
    """How many readings a round would make now."""
    from qtg_dagster.domain.clock import SystemClock

    return len(await due_readings(database, settings, SystemClock().now()))


async def read_round(
    database: Database, settings: Settings, readers: Mapping[str, RecordReader], clock: Clock, run_id: str | None
) -> Round:
    """Read what is due. A venue that is in somebody else's hands at the moment is left to its next round."""
    read: list[Ingested] = []
    problems: dict[str, str] = {}
    for due in await due_readings(database, settings, clock.now(), run_id):
        reader = readers.get(due.venue_key)
        if reader is None:
            raise ConfigurationError(f"MG_CEX_TRANSFER_INGEST_VENUES_CSV: no venue {due.venue_key!r} in the inventory")
        keeper = RecordKeeper(database, settings.network_class, reader, clock, busy_seconds=_BUSY_SECONDS)
        try:
            done = await keeper.ingest(due.order)
        except Conflict as busy:
            problems[due.venue_key] = str(busy)
            continue
        read.append(done)
        if done.incomplete:
            problems[due.venue_key] = f"{len(done.incomplete)} days incomplete: {done.incomplete[-1].problem}"
            log.warning("record incomplete", venue=due.venue_key, because=problems[due.venue_key])
    return Round(tuple(read), problems)


def _due_days(days: Sequence[UnfinishedDay], rescanned: Stretch | None, now: datetime) -> list[date]:
    due = [
        day.day
        for day in days
        if (rescanned is None or not rescanned.first <= day.day <= rescanned.last) and _is_due(day, now)
    ]
    return due[-_MOST_FOLLOWED:]


def _is_due(day: UnfinishedDay, now: datetime) -> bool:
    if day.looked_at is None:
        return True
    wait = RETRY if day.incomplete else timedelta()
    return now >= max(next_look(day.since, day.looked_at), day.looked_at + wait)
