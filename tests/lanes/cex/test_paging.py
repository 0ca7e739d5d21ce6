"""Every way of paging reads all rows once at least, and none goes round in circles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.paging import AfterId, BelowId, ByOffset, ByPageNumber, ByToken, OlderThan, Paging
from qtg_dagster.lanes.cex.reply import LookupFailed

SIZE = 3
Row = dict[str, Any]


def read_all(paging: Paging, serve: Any) -> list[Row]:
    """All rows, page by page, as the histories read them."""
    rows: list[Row] = []
    cursor: str | None = None
    for _ in range(200):
        body, page = serve(cursor)
        rows += page
        cursor = paging.following(body, page, cursor)
        if cursor is None:
            return rows
    raise AssertionError("it never ends")


def history(moments: list[int]) -> list[Row]:
    """Newest first."""
    return [{"id": f"w{number}", "ts": str(moment)} for number, moment in enumerate(sorted(moments, reverse=True))]


MOMENTS = st.lists(st.integers(10, 10**6), max_size=20)


@given(MOMENTS)
def test_offsets_numbers_and_ids_read_everything_once(moments: list[int]) -> None:
    rows = history(moments)
    keys = [row["id"] for row in rows]

    def after(cursor: str | None) -> int:
        return 0 if cursor is None else keys.index(cursor) + 1

    assert read_all(ByOffset(SIZE), lambda at: ({}, rows[int(at or 0) :][:SIZE])) == rows
    assert read_all(ByPageNumber(SIZE), lambda at: ({}, rows[(int(at or 1) - 1) * SIZE :][:SIZE])) == rows
    assert read_all(ByPageNumber(SIZE, first=0), lambda at: ({}, rows[int(at or 0) * SIZE :][:SIZE])) == rows
    assert read_all(AfterId(SIZE, "id"), lambda at: ({}, rows[after(at) :][:SIZE])) == rows


@given(st.sets(st.integers(1, 10**6), max_size=20))
def test_pages_below_an_id_are_the_whole_history(ids: set[int]) -> None:
    rows = [{"id": str(number)} for number in sorted(ids, reverse=True)]

    def serve(cursor: str | None) -> tuple[Row, list[Row]]:
        return {}, [row for row in rows if cursor is None or int(row["id"]) < int(cursor)][:SIZE]

    assert read_all(BelowId(SIZE, "id"), serve) == rows


@pytest.mark.parametrize("ids", [("3", "1", "2"), ("3", "3", "2"), ("9", "8", "7"), ("12", "8", "7"), ("3", "x", "1")])
def test_a_full_page_out_of_the_order_of_its_ids_is_not_read_on(ids: tuple[str, ...]) -> None:
    rows = [{"id": number} for number in ids]
    with pytest.raises(LookupFailed):
        BelowId(SIZE, "id").following({}, rows, "9")
    assert BelowId(SIZE + 1, "id").following({}, rows, "9") is None


@given(st.lists(st.integers(10, 40), max_size=20))
def test_rows_of_one_moment_are_not_lost_between_pages(moments: list[int]) -> None:
    """Unless they fill a page, see below."""
    rows = history(moments)

    def serve(cursor: str | None) -> tuple[Row, list[Row]]:
        return {}, [row for row in rows if cursor is None or int(row["ts"]) < int(cursor)][:SIZE]

    if not any(moments.count(moment) >= SIZE for moment in moments):
        assert {row["id"] for row in read_all(OlderThan(SIZE, "ts"), serve)} == {row["id"] for row in rows}


def test_a_page_of_one_moment_is_said_to_be_unreadable() -> None:
    rows = history([7] * (SIZE + 1))
    with pytest.raises(LookupFailed, match="PAGES_STAND_STILL"):
        read_all(OlderThan(SIZE, "ts"), lambda at: ({}, [row for row in rows if int(row["ts"]) < int(at or 99)][:SIZE]))


@given(MOMENTS)
def test_tokens_are_the_venues_own(moments: list[int]) -> None:
    rows = history(moments)

    def serve(cursor: str | None) -> tuple[Row, list[Row]]:
        start = int(cursor or 0)
        more = start + SIZE < len(rows)
        return {"next": str(start + SIZE) if more else None}, rows[start : start + SIZE]

    assert read_all(ByToken(lambda body: body["next"]), serve) == rows


def test_pages_that_lead_to_themselves_are_not_the_end() -> None:
    page = history([5] * SIZE)
    for paging, body in ((AfterId(SIZE, "id"), {}), (ByToken(lambda body: body["next"]), {"next": page[-1]["id"]})):
        with pytest.raises(LookupFailed, match="PAGES_STAND_STILL"):
            paging.following(body, page, page[-1]["id"])


@pytest.mark.parametrize("row", [{}, {"ts": None}, {"ts": ""}, {"ts": "yesterday"}, {"ts": "1.5"}])
def test_a_full_page_that_names_no_next_is_malformed(row: Row) -> None:
    with pytest.raises(LookupFailed, match="MALFORMED"):
        OlderThan(SIZE, "ts").following({}, [row] * SIZE, None)
