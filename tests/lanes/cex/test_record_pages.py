"""A venue's record is read whole however full it is, and says so when it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.cex_transfers import TransferKind
from qtg_dagster.lanes.cex.paging import ByOffset, ByToken, Paging
from qtg_dagster.lanes.cex.record_pages import MOST_PAGES, History, PageReader
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import Call, DepositRow, RowState, Window
from tests.domain.test_cex_transfers import seen

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY = Window(START, START + timedelta(days=1))
_ROW = DepositRow("d", "ETH", None, None, None, Decimal(1), RowState.DONE, "1", True, None, START, {})

Rows = list[tuple[str, int]]  # key, second of the day; newest first


class Venue:
    """A history in memory, newest first, of `size` rows a page; `before` is called before each page is answered."""

    def __init__(self, rows: Rows, size: int, *, before: Callable[[Rows, int], None] | None = None) -> None:
        self.rows, self.size, self.asked = rows, size, 0
        self._before = before

    def ask(self, coin: str | None, window: Window, cursor: str | None) -> Call:  # noqa: ARG002
        return Call("x", {"from": window.start.isoformat(), "to": window.end.isoformat(), "cursor": cursor or "0"})

    async def answer(self, call: Call) -> list[dict[str, Any]]:
        self.asked += 1
        if self._before is not None:
            self._before(self.rows, self.asked)
        start, end = (datetime.fromisoformat(call.params[name]) for name in ("from", "to"))
        found = [
            {"id": key, "at": second}
            for key, second in sorted(self.rows, key=lambda row: (-row[1], row[0]))
            if start <= START + timedelta(seconds=second) <= end
        ]
        offset = int(call.params["cursor"])
        return found[offset : offset + self.size]

    def reader(self, pages: Paging | None = None) -> PageReader:
        return PageReader(History("deposits", self.ask, _rows, pages or ByOffset(self.size), _seen), self.answer)


def _rows(body: Sequence[Mapping[str, Any]]) -> tuple[DepositRow, ...]:
    times = [START + timedelta(seconds=row["at"]) for row in body]
    return tuple(
        replace(_ROW, deposit_id=row["id"], inserted_at=at, raw=row) for row, at in zip(body, times, strict=True)
    )


def _seen(row: DepositRow) -> Any:
    return seen(kind=TransferKind.DEPOSIT, row_key=row.deposit_id, occurred_at=row.inserted_at)


def numbered(count: int, seconds: int = 86_400) -> Rows:
    return [(f"d{number}", number * (seconds - 1) // max(1, count - 1)) for number in range(count)]


@given(st.lists(st.integers(0, 86_400), max_size=60), st.integers(1, 7))
async def test_every_row_is_read_once_whatever_the_page_size(seconds: list[int], size: int) -> None:
    venue = Venue([(f"d{number}", second) for number, second in enumerate(seconds)], size)
    reader = venue.reader()
    await reader.read(None, DAY)
    assert set(reader.found) == {key for key, _ in venue.rows}


async def test_a_day_with_more_pages_than_are_read_at_once_is_read_in_halves() -> None:
    venue = Venue(numbered(10 * MOST_PAGES), 2)
    reader = venue.reader()
    await reader.read(None, DAY)
    assert len(reader.found) == 10 * MOST_PAGES


async def test_a_moment_with_more_rows_than_can_be_read_says_so_and_keeps_what_was() -> None:
    reader = Venue([(f"d{number}", 5) for number in range(500)], 2).reader()
    with pytest.raises(LookupFailed, match="TOO_MANY_ROWS"):
        await reader.read(None, DAY)
    assert len(reader.found) == 400


async def test_rows_that_come_in_between_two_pages_have_it_read_again() -> None:
    def comes(rows: Rows, asked: int) -> None:
        if asked == 2:
            rows[:0] = [("new1", 86_000), ("new2", 86_001)]

    venue = Venue(numbered(9, 80_000), 3, before=comes)
    reader = venue.reader()
    await reader.read(None, DAY)
    assert set(reader.found) == {key for key, _ in venue.rows}


async def test_rows_that_never_stop_coming_leave_it_unread() -> None:
    def comes(rows: Rows, asked: int) -> None:
        rows.append((f"{10**6 - asked}", 86_398))  # before all others of its second

    with pytest.raises(LookupFailed, match="PAGES_KEEP_SHIFTING"):
        await Venue([(f"d{number}", 86_398) for number in range(150)], 50, before=comes).reader().read(None, DAY)


async def test_one_page_needs_no_second_look() -> None:
    venue = Venue(numbered(2), 3)
    await venue.reader().read(None, DAY)
    assert venue.asked == 1


async def test_two_rows_of_one_page_with_one_key_are_not_taken_for_one() -> None:
    with pytest.raises(LookupFailed, match=r"AMBIGUOUS.*'d1'"):
        await Venue([("d1", 1), ("d1", 2)], 3).reader().read(None, DAY)


async def test_a_full_last_page_without_a_next_one_is_not_the_end() -> None:
    class Ends(ByOffset):
        def following(self, body: Any, rows: Any, cursor: str | None) -> str | None:  # noqa: ARG002
            return None

    with pytest.raises(LookupFailed, match="FULL_LAST_PAGE"):
        await Venue(numbered(3, 60), 3).reader(Ends(3)).read(None, DAY)


async def test_a_venue_that_names_its_pages_itself_is_read_once() -> None:
    venue = Venue(numbered(7), 3)
    tokens = iter(["3", "6", None])
    reader = venue.reader(ByToken(lambda _: next(tokens)))
    await reader.read(None, DAY)
    assert (len(reader.found), venue.asked) == (7, 3)


async def test_what_a_venue_shows_beyond_the_window_is_not_of_it() -> None:
    class Careless(Venue):
        async def answer(self, call: Call) -> list[dict[str, Any]]:  # noqa: ARG002
            return [{"id": "inside", "at": 5}, {"id": "after", "at": 90_000}]

    reader = Careless([], 9).reader()
    await reader.read(None, DAY)
    assert set(reader.found) == {"inside"}


@pytest.mark.parametrize("days_back", [0, 3])
async def test_a_record_that_takes_no_times_is_read_until_the_window_is_past(days_back: int) -> None:
    class Unbounded(Venue):
        async def answer(self, call: Call) -> list[dict[str, Any]]:
            self.asked += 1
            found = [{"id": key, "at": at} for key, at in sorted(self.rows, key=lambda row: -row[1])]
            offset = int(call.params["cursor"])
            return found[offset : offset + self.size]

    hours = [(f"d{number}", number * 3600) for number in range(24 * 9)]
    venue = Unbounded(hours, 10)
    history = History("deposits", venue.ask, _rows, ByOffset(10), _seen, unbounded=True)
    reader = PageReader(history, venue.answer)
    start = START + timedelta(days=8 - days_back)
    await reader.read(None, Window(start, start + timedelta(hours=23)))
    assert set(reader.found) == {f"d{number}" for number in range((8 - days_back) * 24, (8 - days_back) * 24 + 24)}
    assert venue.asked < len(hours) / 10
