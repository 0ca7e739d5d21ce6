"""Keeping venues' records: reading stretches of days, and writing what is new about them.

A stretch is written in one transaction: whoever dies before it has written nothing of it, and whoever comes next reads
it again. Days are incomplete rather than wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import structlog

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.record_days import DayState, Stretch, day_of, state_of, stretches
from qtg_dagster.domain.venue_record import RecordProblem, RecordReader, RecordReading
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.cex_transfers import Place, Written, reading_alone, write_sightings
from qtg_dagster.store.database import Database, Transaction
from qtg_dagster.store.record_days import (
    DayCount,
    DayRow,
    ReadingRow,
    count_days,
    missing_transfers,
    read_day_states,
    write_days,
    write_reading,
)
from qtg_dagster.store.record_matching import match_transfers
from qtg_dagster.store.record_views import coins_on_record, count_unmatched

log = structlog.get_logger("qtg.record")

#: How long a pass waits for another one over the same record.
_BUSY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class DayOutcome:
    """What a reading came to for one day."""

    day: date
    state: DayState
    problem: str | None
    transfers: int
    open_transfers: int
    new: int
    changed: int
    unmatched: int

    @property
    def whole(self) -> bool:
        return self.problem is None


@dataclass(frozen=True, slots=True)
class Order:
    """Which days of a record are read, why, and by which run."""

    days: Collection[date]
    purpose: str
    run_id: str | None = None


@dataclass
class Ingested:
    """What a pass over one record came to."""

    venue_key: str
    purpose: str
    days: list[DayOutcome] = field(default_factory=list)

    @property
    def incomplete(self) -> list[DayOutcome]:
        return [day for day in self.days if not day.whole]

    def told(self) -> dict[str, int]:
        """For the page of a run, and the record of a cycle."""
        return {
            "days": len(self.days),
            "incomplete": len(self.incomplete),
            "transfers": sum(day.transfers for day in self.days),
            "new": sum(day.new for day in self.days),
            "changed": sum(day.changed for day in self.days),
            "unmatched": sum(day.unmatched for day in self.days),
        }


class RecordKeeper:
    """Reads one venue account's record and keeps it."""

    def __init__(
        self,
        database: Database,
        network_class: str,
        reader: RecordReader,
        clock: Clock,
        *,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        self._database = database
        self.reader = reader
        self._clock = clock
        self._busy_seconds = busy_seconds
        self.place = Place(network_class, reader.venue_key, reader.account)

    async def ingest(self, order: Order) -> Ingested:
        """Read the days, oldest first. Raises `Conflict` when somebody else keeps reading this record."""
        done = Ingested(self.place.venue_key, order.purpose)
        async for days in self.stretches(order):
            done.days += days
        return done

    async def stretches(self, order: Order) -> AsyncIterator[Sequence[DayOutcome]]:
        """The same, stretch by stretch: what is given is committed."""
        async with reading_alone(self._database, self.place, wait_seconds=self._busy_seconds):
            async with self._database.transaction() as transaction:
                coins = await coins_on_record(transaction, self.place)
            today = day_of(self._clock.now())
            days = [day for day in order.days if day <= today]
            waiting = list(reversed(stretches(days, self.reader.days_at_once)))
            while waiting:
                stretch = waiting.pop()
                began_at = self._clock.now()
                reading = await self.reader.read(stretch.asked_from, stretch.asked_until, coins)
                fault_point(FaultPoint.RECORD_READ)
                # What cannot be read whole for a reason of its own is read in halves, down to single days.
                if reading.problem is not None and reading.problem.local and stretch.length > 1:
                    waiting += reversed(stretch.halves())
                    continue
                outcomes = await self._write(order, stretch, began_at, reading)
                fault_point(FaultPoint.RECORD_COMMITTED)
                log.info("record read", venue=self.place.venue_key, days=str(stretch), rows=len(reading.transfers))
                yield outcomes

    async def _write(
        self, order: Order, stretch: Stretch, began_at: datetime, reading: RecordReading
    ) -> list[DayOutcome]:
        problem = None if reading.problem is None else str(reading.problem)
        async with self._database.transaction() as transaction:
            written = await write_sightings(transaction, self.place, reading.transfers)
            missing: dict[date, int] = {}
            if problem is None:
                missing = await missing_transfers(transaction, self.place, stretch, reading.transfers)
            await match_transfers(transaction, self.place, stretch)
            days = await self._days(transaction, stretch, began_at, problem, missing)
            changed_days = await self._changed_days(transaction, stretch, reading.problem, days)
            await write_days(transaction, self.place, changed_days)
            row = ReadingRow(
                order.purpose,
                stretch,
                order.run_id,
                began_at,
                problem or next((day.problem for day in days if day.problem), None),
                len(reading.transfers),
                sum(written.new.values()),
                sum(written.changed.values()),
            )
            await write_reading(transaction, self.place, row)
            unmatched = await count_unmatched(transaction, self.place, stretch)
            fault_point(FaultPoint.RECORD_WRITTEN)
        return [_outcome(day, written, unmatched) for day in days]

    async def _days(
        self,
        transaction: Transaction,
        stretch: Stretch,
        began_at: datetime,
        problem: str | None,
        missing: dict[date, int],
    ) -> list[DayRow]:
        counts = await count_days(transaction, self.place, stretch)
        rows = []
        for day in stretch.days:
            count = counts.get(day, DayCount())
            wrong = problem or _missing(missing.get(day, 0))
            rows.append(DayRow(day, state_of(day, began_at, wrong, count.open), wrong, count))
        return rows

    async def _changed_days(
        self, transaction: Transaction, stretch: Stretch, problem: RecordProblem | None, days: Iterable[DayRow]
    ) -> list[DayRow]:
        """A day that was known whole stays so when the venue cannot be read: that says nothing about the day."""
        if problem is None or problem.local:
            return list(days)
        before = await read_day_states(transaction, self.place, stretch)
        return [day for day in days if before.get(day.day) is not DayState.CLOSED]


def _missing(count: int) -> str | None:
    if not count:
        return None
    what = "1 transfer" if count == 1 else f"{count} transfers"
    return f"NOT_SHOWN: {what} on our record, and not on the venue's any more"


def _outcome(day: DayRow, written: Written, unmatched: dict[date, int]) -> DayOutcome:
    return DayOutcome(
        day=day.day,
        state=day.state,
        problem=day.problem,
        transfers=day.count.transfers,
        open_transfers=day.count.open,
        new=written.new.get(day.day, 0),
        changed=written.changed.get(day.day, 0),
        unmatched=unmatched.get(day.day, 0),
    )


def days_between(first: str, last: str) -> tuple[date, ...]:
    """Days as people give them, like 2026-03-01; raises `InvalidInput`."""
    found = []
    for name, text in (("first", first), ("last", last)):
        try:
            found.append(date.fromisoformat(text))
        except ValueError:
            raise InvalidInput(name, f"{text!r} is no day", "Give one like 2026-03-01.") from None
    if found[1] < found[0]:
        raise InvalidInput("last", f"{last} is before {first}", "Give the earlier day first.")
    return Stretch(*found).days
