"""When a drain is launched, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from qtg_dagster.store.slots import SlotState
from sensors.keeping_alive import LiveRun, judge

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FREE = SlotState(held=False, waiters=0, youngest_age_seconds=None)


def held(age: float, waiters: int = 0) -> SlotState:
    return SlotState(held=True, waiters=waiters, youngest_age_seconds=age)


def run(age: float, *, cancelling: bool = False) -> LiveRun:
    return LiveRun("abcdef0123456789", NOW - timedelta(seconds=age), cancelling)


@pytest.mark.parametrize(
    ("case", "waiting", "slot", "runs", "launch"),
    [
        ("nothing to do", 0, FREE, [], False),
        ("work and nobody", 1, FREE, [], True),
        ("a run is starting", 1, FREE, [run(3)], False),
        ("a run never took its slot", 1, FREE, [run(120)], True),
        ("two runs never took their slot", 1, FREE, [run(120), run(100)], True),
        ("two runs are starting", 1, FREE, [run(3), run(2)], False),
        ("a drain works", 1, held(30), [run(31)], False),
        ("its budget ends soon", 1, held(596), [run(597)], True),
        ("its budget is over", 1, held(700), [run(701)], True),
        ("its successor waits", 1, held(700, waiters=1), [run(701), run(5)], False),
        ("its successor is starting", 1, held(700), [run(701), run(2)], False),
        ("it is being ended", 1, held(100), [run(101, cancelling=True)], True),
        ("it was ended before it began", 1, FREE, [run(5, cancelling=True)], True),
        ("a drain of another launcher works", 1, held(30), [], False),
        ("one from elsewhere nears its end", 1, held(599), [], True),
    ],
)
def test_when_a_drain_is_launched(case: str, waiting: int, slot: SlotState, runs: list[LiveRun], launch: bool) -> None:
    verdict = judge(waiting, slot, runs, 600, NOW)
    assert verdict.launch is launch, f"{case}: {verdict.reason}"


@pytest.mark.parametrize(
    ("case", "waiting", "slot", "runs", "launch"),
    [
        ("nothing to do", 0, FREE, [], False),
        ("a drain works", 1, held(30), [run(31)], True),
        ("its standby is starting", 1, held(30), [run(31), run(2)], False),
        ("its standby waits", 1, held(30, waiters=1), [run(31), run(20)], False),
        ("the drain has not begun", 1, FREE, [run(2)], False),
    ],
)
def test_when_a_standby_is_launched(
    case: str, waiting: int, slot: SlotState, runs: list[LiveRun], launch: bool
) -> None:
    verdict = judge(waiting, slot, runs, 600, NOW, standby=True)
    assert verdict.launch is launch, f"{case}: {verdict.reason}"


def test_the_reason_says_what_waits_and_what_is_alive() -> None:
    verdict = judge(7, held(30), [run(31)], 600, NOW)
    assert "7 nodes wait" in verdict.reason
    assert "abcdef01" in verdict.reason
    assert "30 s" in verdict.reason
