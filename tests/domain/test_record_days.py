"""Days of a venue's record: stretches of them, when one is done, and when it is read again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.record_days import (
    DAY,
    OVERLAP,
    RESCANS,
    RETRY,
    DayState,
    Stretch,
    day_of,
    due_rescan,
    longest_stretch,
    next_look,
    start_of,
    state_of,
    stretches,
    trailing,
)

MARCH = date(2026, 3, 1)
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
THREE, THIRTY, NINETY = RESCANS


@given(st.sets(st.integers(0, 400)), st.integers(1, 90))
def test_stretches_hold_every_day_once_in_order_and_none_is_too_long(numbers: set[int], longest: int) -> None:
    days = [MARCH + DAY * number for number in numbers]
    found = stretches(days, longest)
    assert [day for stretch in found for day in stretch.days] == sorted(days)
    assert all(stretch.length <= longest for stretch in found)


@given(st.integers(1, 400))
def test_halves_are_the_same_days(length: int) -> None:
    whole = Stretch(MARCH, MARCH + DAY * (length - 1))
    assert [day for half in whole.halves() for day in half.days] == list(whole.days)


def test_a_day_is_asked_for_with_a_quarter_of_an_hour_on_both_sides() -> None:
    day = Stretch(MARCH, MARCH)
    assert day.asked_from == datetime(2026, 2, 28, 23, 45, tzinfo=UTC)
    assert day.asked_until == datetime(2026, 3, 2, 0, 15, tzinfo=UTC)


@given(st.integers(1, 120), st.integers(1, 60))
def test_what_is_asked_for_at_once_fits_the_venues_window(window_days: int, most: int) -> None:
    window = timedelta(days=window_days, seconds=-1)
    length = longest_stretch(window, most)
    assert length == 1 or length * DAY + 2 * OVERLAP <= window
    assert length <= most


def test_trailing_days_end_with_today() -> None:
    assert trailing(NOW, 3) == Stretch(date(2026, 3, 8), date(2026, 3, 10))


@pytest.mark.parametrize("moment", [start_of(MARCH), start_of(MARCH) + DAY - timedelta(microseconds=1)])
def test_a_day_runs_from_midnight_to_midnight(moment: datetime) -> None:
    assert day_of(moment) == MARCH


@pytest.mark.parametrize(
    ("read_at", "problem", "open_transfers", "state"),
    [
        (start_of(MARCH) + DAY + timedelta(hours=48), None, 0, DayState.OPEN),
        (start_of(MARCH) + DAY + timedelta(hours=48, seconds=1), None, 0, DayState.CLOSED),
        (start_of(MARCH) + DAY + timedelta(days=30), None, 1, DayState.OPEN),
        (start_of(MARCH) + DAY + timedelta(days=30), "a full page", 0, DayState.INCOMPLETE),
    ],
)
def test_a_day_is_closed_when_it_has_settled_and_all_has_ended(
    read_at: datetime, problem: str | None, open_transfers: int, state: DayState
) -> None:
    assert state_of(MARCH, read_at, problem, open_transfers) is state


def test_the_longest_rescan_that_is_due_comes_first_and_does_for_the_others() -> None:
    assert due_rescan(NOW, {}, {}) is NINETY
    read = {NINETY.purpose: NOW}
    assert due_rescan(NOW + timedelta(minutes=59), read, {}) is None
    assert due_rescan(NOW + timedelta(hours=1), read, {}) is THREE
    assert due_rescan(NOW + timedelta(days=1), {**read, THREE.purpose: NOW + timedelta(hours=23)}, {}) is THIRTY
    assert due_rescan(NOW + timedelta(days=7), read, {}) is NINETY


def test_one_that_failed_waits_and_lets_a_shorter_one_go_first() -> None:
    failed = {NINETY.purpose: NOW}
    assert due_rescan(NOW + timedelta(minutes=1), {}, failed) is THIRTY
    everything = {rescan.purpose: NOW for rescan in RESCANS}
    assert due_rescan(NOW + timedelta(minutes=1), {}, everything) is None
    assert due_rescan(NOW + RETRY, {}, everything) is NINETY


def test_a_transfer_is_looked_at_the_more_seldom_the_older_it_is() -> None:
    waits = [
        next_look(NOW, NOW + age) - (NOW + age)
        for age in (timedelta(), timedelta(hours=2), timedelta(days=2), timedelta(days=30))
    ]
    assert waits == sorted(waits)
    assert waits[0] == timedelta(minutes=2)
