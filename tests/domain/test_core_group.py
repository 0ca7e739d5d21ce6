"""When the core group pauses, halts and goes on, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from qtg_dagster.domain.core_group import (
    CoreEvent,
    CoreStanding,
    CoreWord,
    answer_to_fall,
    belongs_to_fall,
    must_end,
    standing_after,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def word(event: CoreEvent, pause: float | None = None, worker: str | None = "node_dispatcher") -> CoreWord:
    restart_at = None if pause is None else NOW + timedelta(seconds=pause)
    return CoreWord(1, event, NOW, restart_at, worker, 1, None, "it died")


def test_the_first_fall_costs_no_pause_and_the_following_ever_longer_ones() -> None:
    assert [answer_to_fall(falls, 10).backoff_seconds for falls in range(1, 10)] == [0, 1, 3, 7, 15, 31, 60, 60, 60]


@pytest.mark.parametrize(("falls", "event"), [(4, CoreEvent.RESTART), (5, CoreEvent.HALT), (6, CoreEvent.HALT)])
def test_repeated_falls_halt(falls: int, event: CoreEvent) -> None:
    assert answer_to_fall(falls, 5).event is event


@pytest.mark.parametrize(
    ("began", "noticed", "belongs"),
    [(-10, 5, True), (-10, 31, False), (1, 5, False)],
)
def test_deaths_of_the_generation_that_is_ending_are_one_fall(began: float, noticed: float, belongs: bool) -> None:
    at = [NOW + timedelta(seconds=seconds) for seconds in (began, noticed)]
    assert belongs_to_fall(at[0], NOW, at[1], 30) is belongs


@pytest.mark.parametrize(
    ("last", "after", "standing"),
    [
        (None, 0, CoreStanding.RUNNING),
        (word(CoreEvent.RESTART, 0), 0, CoreStanding.RUNNING),
        (word(CoreEvent.RESTART, 3), 2, CoreStanding.RESTARTING),
        (word(CoreEvent.RESTART, 3), 3, CoreStanding.RUNNING),
        (word(CoreEvent.HALT), 100_000, CoreStanding.HALTED),
        (word(CoreEvent.RESUME), 0, CoreStanding.RUNNING),
    ],
)
def test_how_the_group_stands(last: CoreWord | None, after: float, standing: CoreStanding) -> None:
    assert standing_after(last, NOW + timedelta(seconds=after)) is standing


@pytest.mark.parametrize(
    ("entry", "worker", "ends"),
    [
        (word(CoreEvent.RESTART, 0), "node_observer", True),
        (word(CoreEvent.RESTART, 0), "node_dispatcher", False),
        (word(CoreEvent.RESTART, 0, None), "node_dispatcher", True),
        (word(CoreEvent.RESTART, 1), "node_dispatcher", True),
        (word(CoreEvent.HALT), "node_dispatcher", True),
        (word(CoreEvent.RESUME), "node_observer", False),
    ],
)
def test_who_ends_with_the_group(entry: CoreWord, worker: str, ends: bool) -> None:
    """Whoever took over from the dead goes on, unless there is a pause to keep."""
    assert must_end(entry, worker) is ends
