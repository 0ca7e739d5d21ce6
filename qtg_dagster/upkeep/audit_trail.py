"""Verifying the audit trail: the chain, its marks, and the outbox beside it, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qtg_dagster.domain.audit_chain import GENESIS, START, Break, BreakKind, ChainReader, Head, Mark
from qtg_dagster.store.audit_chain import (
    EventBesideEntry,
    Waiting,
    chain_head,
    read_events,
    read_strays,
    waiting_entries,
)
from qtg_dagster.store.database import Database

#: Rows a statement: each is over in a fraction of a second, and holds no snapshot in between.
PAGE = 5000
#: Things that are wrong are counted beyond this, and not kept.
MOST_BREAKS = 100

_ENTRY_BREAKS = {
    "absent": (BreakKind.EVENT_WITHOUT_ENTRY, "entry {id} is not in the outbox"),
    "unmarked": (BreakKind.ENTRY_DIFFERS, "entry {id} is not marked as promoted"),
    "different": (BreakKind.ENTRY_DIFFERS, "entry {id} of the outbox tells something else"),
}


@dataclass(slots=True)
class Breaks:
    """The first things that are wrong, and how many there are."""

    first: list[Break] = field(default_factory=list)
    many: int = 0

    def add(self, found: Iterable[Break]) -> None:
        for one in found:
            self.many += 1
            if len(self.first) < MOST_BREAKS:
                self.first.append(one)


@dataclass(frozen=True, slots=True)
class TrailReport:
    """What a verification found."""

    network_class: str
    complete: bool  # from the first row on
    rows: int
    head: Head
    breaks: tuple[Break, ...]
    many_breaks: int
    waiting: Waiting

    @property
    def right(self) -> bool:
        return not self.many_breaks

    @property
    def problem(self) -> str | None:
        """The first thing that is wrong, in a line; None when nothing is."""
        if not self.breaks:
            return None
        more = f" (and {self.many_breaks - 1} more)" if self.many_breaks > 1 else ""
        return self.breaks[0].told() + more


async def verify_trail(
    database: Database,
    network_class: str,
    *,
    behind: Head = START,
    marks: Sequence[Mark] = (),
    more: Sequence[Break] = (),
    every_entry: bool = False,
) -> TrailReport:
    """Read a chain from its first row, or from one that was verified before, to where it ends now.

    `marks` are rows known from elsewhere, `more` what was found wrong on the way to them. `every_entry` wants an outbox
    entry beside each row, however old the row says it is: for rows that are known to be young.
    """
    until = await chain_head(database, network_class)
    reader = ChainReader(network_class, await _before(database, network_class, behind), marks)
    found, rows, lowest = Breaks(), 0, 0
    found.add(more)
    found.add(reader.begin())
    while page := await read_events(
        database,
        network_class,
        after=reader.head.sequence,
        until=until.sequence,
        most=PAGE,
        any_age=not every_entry,
    ):
        for one in page:
            found.add(reader.take(one.event))
            if one.event.sequence > behind.sequence:
                found.add(_beside(one))
        rows += len(page)
        lowest = min([lowest or page[0].event.outbox_id, *(one.event.outbox_id for one in page)])
    found.add(reader.end())
    await _compare_outbox(database, network_class, found, after=0 if behind == START else lowest - 1)
    return TrailReport(
        network_class=network_class,
        complete=behind == START,
        rows=rows,
        head=reader.head,
        breaks=tuple(found.first),
        many_breaks=found.many,
        waiting=await waiting_entries(database, network_class),
    )


async def _before(database: Database, network_class: str, behind: Head) -> Head:
    """Where to begin so that the row that was verified before is read once more."""
    if behind == START:
        return START
    last = behind.sequence - 1
    page = await read_events(database, network_class, after=last, until=behind.sequence, most=1)
    return Head(last, page[0].event.previous_hash if page else GENESIS)


def _beside(one: EventBesideEntry) -> list[Break]:
    if one.entry not in _ENTRY_BREAKS:
        return []
    kind, detail = _ENTRY_BREAKS[one.entry]
    event = one.event
    return [Break(event.network_class, event.sequence, kind, detail.format(id=event.outbox_id))]


async def _compare_outbox(database: Database, network_class: str, found: Breaks, *, after: int) -> None:
    last: int | None = max(0, after)
    while last is not None:
        last, strays = await read_strays(database, network_class, after=last, most=PAGE)
        for entry in strays:
            detail = f"entry {entry} is marked as promoted, and no row tells of it"
            found.add([Break(network_class, None, BreakKind.ENTRY_WITHOUT_EVENT, detail)])
