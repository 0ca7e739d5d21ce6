"""Days of a venue's record: which are asked for at once, when one is done, and when it is read again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

DAY = timedelta(days=1)
#: Clocks differ, and rows are stamped a little off: a day is asked for this much wider on both sides.
OVERLAP = timedelta(minutes=15)
#: Rows may appear and change for so long after a day is over.
SETTLING = timedelta(hours=48)


class DayState(StrEnum):
    """How far a day's record is known."""

    OPEN = "OPEN"  # read whole, and may still change
    CLOSED = "CLOSED"  # read whole after it had settled, and every transfer of it has ended
    INCOMPLETE = "INCOMPLETE"  # some of it could not be read, or is not there any more


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive UTC days that are read at once."""

    first: date
    last: date

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"

    @property
    def days(self) -> tuple[date, ...]:
        return tuple(self.first + DAY * number for number in range(self.length))

    @property
    def length(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def start(self) -> datetime:
        """The first moment of its first day."""
        return start_of(self.first)

    @property
    def end(self) -> datetime:
        """The first moment after its last day."""
        return start_of(self.last) + DAY

    @property
    def asked_from(self) -> datetime:
        return self.start - OVERLAP

    @property
    def asked_until(self) -> datetime:
        return self.end + OVERLAP

    def halves(self) -> tuple[Stretch, ...]:
        """Two shorter ones; itself when it is a single day."""
        if self.length == 1:
            return (self,)
        middle = self.first + DAY * (self.length // 2)
        return Stretch(self.first, middle - DAY), Stretch(middle, self.last)


def start_of(day: date) -> datetime:
    """Midnight, UTC."""
    return datetime.combine(day, time(), UTC)


def day_of(moment: datetime) -> date:
    """The UTC day of a moment."""
    return moment.astimezone(UTC).date()


def stretches(days: Iterable[date], longest: int) -> tuple[Stretch, ...]:
    """The days, oldest first, in runs of consecutive ones no longer than `longest`."""
    found: list[Stretch] = []
    for day in sorted(set(days)):
        if found and day - found[-1].last == DAY and found[-1].length < longest:
            found[-1] = Stretch(found[-1].first, day)
        else:
            found.append(Stretch(day, day))
    return tuple(found)


def longest_stretch(history_window: timedelta, most: int) -> int:
    """How many days fit into what a venue answers at once, the overlap on both sides counted; at least one."""
    return max(1, min(most, (history_window - 2 * OVERLAP) // DAY))


def trailing(now: datetime, days: int) -> Stretch:
    """Today and the days before it, `days` in all."""
    today = day_of(now)
    return Stretch(today - DAY * (days - 1), today)


def state_of(day: date, read_at: datetime, problem: str | None, open_transfers: int) -> DayState:
    """What a reading that began at `read_at` makes of a day."""
    if problem is not None:
        return DayState.INCOMPLETE
    if start_of(day) + DAY < read_at - SETTLING and open_transfers == 0:
        return DayState.CLOSED
    return DayState.OPEN


@dataclass(frozen=True, slots=True)
class Rescan:
    """So many days back are read again so often: venues change what they have shown."""

    days: int
    every: timedelta

    @property
    def purpose(self) -> str:
        return f"trailing {self.days} days"


RESCANS = (
    Rescan(3, timedelta(hours=1)),
    Rescan(30, timedelta(days=1)),
    Rescan(90, timedelta(days=7)),
)
#: Days with transfers that have not ended, and days that could not be read whole.
FOLLOW_UP = "open transfers"
BACKFILL = "backfill"
#: After a reading that was not whole, the next one is due no sooner.
RETRY = timedelta(minutes=10)


def due_rescan(now: datetime, last_read: dict[str, datetime], last_problem: dict[str, datetime]) -> Rescan | None:
    """The longest rescan that is due; it does for the shorter ones. Times are of the newest by purpose."""
    for number, rescan in reversed(list(enumerate(RESCANS))):
        purposes = {longer.purpose for longer in RESCANS[number:]}
        done = max((last_read[each] for each in purposes if each in last_read), default=None)
        failed = last_problem.get(rescan.purpose)
        if (done is None or now - done >= rescan.every) and (failed is None or now - failed >= RETRY):
            return rescan
    return None


#: Age of a transfer that has not ended -> how long after the last look the next is due.
_FOLLOWED: Sequence[tuple[timedelta, timedelta]] = (
    (timedelta(hours=1), timedelta(minutes=2)),
    (timedelta(days=1), timedelta(minutes=10)),
    (timedelta(days=7), timedelta(hours=1)),
)
_FOLLOWED_AT_LEAST = timedelta(hours=6)


def next_look(occurred_at: datetime, last_look: datetime) -> datetime:
    """When a transfer that has not ended is looked at again: the older it is, the more seldom."""
    age = last_look - occurred_at
    return last_look + next((wait for limit, wait in _FOLLOWED if age < limit), _FOLLOWED_AT_LEAST)
