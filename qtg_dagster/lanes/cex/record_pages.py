"""Every row of one of a venue's records between two moments, however full. Raises `LookupFailed`, never guesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.domain.cex_transfers import SeenTransfer
from qtg_dagster.lanes.cex.paging import Paging
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import Call, DepositRow, Window, WithdrawalRow

VenueRow = WithdrawalRow | DepositRow
#: More pages than that, and the stretch of time is halved.
MOST_PAGES = 20
#: In a stretch that is not halved any more.
MOST_PAGES_AT_LAST = 200
_SHORTEST = timedelta(minutes=1)
_MOST_REPEATS = 5
#: What a shorter stretch of time may be free of.
TOO_FULL = frozenset(
    {"TOO_MANY_ROWS", "PAGES_STAND_STILL", "PAGES_KEEP_SHIFTING", "PAGES_OUT_OF_ORDER", "FULL_LAST_PAGE"}
)

Rows = dict[str, SeenTransfer]


@dataclass(frozen=True, slots=True)
class History:
    """One record of a venue: how a page is asked for and read, and how pages follow one another.

    One that is `unbounded` takes no times: it is read from the newest page on, until the stretch of time is past.
    """

    name: str
    ask: Callable[[str | None, Window, str | None], Call]
    read: Callable[[Any], tuple[VenueRow, ...]]
    pages: Paging
    seen: Callable[[Any], SeenTransfer]
    unbounded: bool = False
    newest: Callable[[Any], datetime | None] = lambda _: None  # of a page that holds other rows as well

    @property
    def rows_shift(self) -> bool:
        """Whether a row that comes in moves the others to other pages."""
        return bool(getattr(self.pages, "rows_shift", False))


class PageReader:
    """Reads one record through `ask`, which gives the JSON of an answer or raises `LookupFailed`."""

    def __init__(self, history: History, ask: Callable[[Call], Any]) -> None:
        self._history = history
        self._ask = ask
        self.found: Rows = {}  # all that was read, whatever comes of the reading

    async def read(self, coin: str | None, window: Window) -> None:
        """Read all pages; a window that is too full is read in halves, which share the moment between them."""
        length = window.end - window.start
        at_last = length < 2 * _SHORTEST or self._history.unbounded
        try:
            await self._read_whole(coin, window, MOST_PAGES_AT_LAST if at_last else MOST_PAGES)
        except LookupFailed as problem:
            if at_last or problem.code not in TOO_FULL:
                raise
            middle = window.start + length / 2
            await self.read(coin, Window(window.start, middle))
            await self.read(coin, Window(middle, window.end))

    async def _read_whole(self, coin: str | None, window: Window, most_pages: int) -> None:
        """Page to exhaustion; where rows shift between pages, until the first page is still the same at the end."""
        for _ in range(_MOST_REPEATS):
            first, pages = await self._read_once(coin, window, most_pages)
            if pages == 1 or not self._history.rows_shift:
                return
            again, _, _ = await self._page(coin, window, None)
            if again == first:
                return
        name = self._history.name
        raise LookupFailed("PAGES_KEEP_SHIFTING", f"{name}: rows came in during each of {_MOST_REPEATS} readings")

    async def _read_once(self, coin: str | None, window: Window, most_pages: int) -> tuple[list[str], int]:
        first: list[str] = []
        cursor: str | None = None
        for number in range(most_pages):
            keys, cursor, past = await self._page(coin, window, cursor)
            if number == 0:
                first = keys
            if cursor is None or (past and self._history.unbounded):
                return first, number + 1
        raise LookupFailed("TOO_MANY_ROWS", f"{self._history.name}: more than {most_pages} pages")

    async def _page(self, coin: str | None, window: Window, cursor: str | None) -> tuple[list[str], str | None, bool]:
        """The keys of a page's rows, the cursor of the next, and whether all of its rows are older than the window."""
        history = self._history
        body = await self._ask(history.ask(coin, window, cursor))
        page = history.read(body)
        following = history.pages.following(body, [row.raw for row in page], cursor)
        size = getattr(history.pages, "size", None)
        if following is None and size is not None and len(page) >= size:
            raise LookupFailed("FULL_LAST_PAGE", f"{history.name}: the last page is full, and there is no next one")
        rows = [history.seen(row) for row in page]
        keys = [row.row_key for row in rows]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise LookupFailed("AMBIGUOUS", f"{history.name}: two rows of one page share the key {twice!r}")
        self.found.update({row.row_key: row for row in rows if _within(row.occurred_at, window)})
        newest = history.newest(body) or max((row.occurred_at for row in rows), default=None)
        past = newest is not None and newest < window.start
        return keys, following, past


def _within(moment: datetime, window: Window) -> bool:
    # Venues keep times to the second or finer than they filter by.
    grain = timedelta(seconds=1)
    return window.start - grain <= moment <= window.end + grain
