"""Zero work, late, failing and dead are told from each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from qtg_dagster.domain.workers import Circumstances, Heartbeat, WorkerState, classify

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def beat(age: float | None, *, items: int = 0, errors: int = 0) -> Heartbeat:
    at = None if age is None else NOW - timedelta(seconds=age)
    return Heartbeat("w", last_attempt_at=at, last_items=items, consecutive_errors=errors)


@pytest.mark.parametrize(
    ("heartbeat", "around", "state"),
    [
        (beat(1, errors=3), Circumstances(on=False, halted=True), WorkerState.OFF),
        (beat(1), Circumstances(halted=True), WorkerState.HALTED),
        (beat(None), Circumstances(), WorkerState.NEVER_RAN),
        (beat(None), Circumstances(alive=False, waiting=3), WorkerState.NEVER_RAN),
        (beat(10, items=2), Circumstances(), WorkerState.WORKING),
        (beat(10), Circumstances(), WorkerState.IDLE),
        (beat(211), Circumstances(), WorkerState.OVERDUE),
        (beat(210), Circumstances(), WorkerState.IDLE),
        (beat(10, errors=1), Circumstances(), WorkerState.FAILING),
        (beat(9999), Circumstances(alive=False, waiting=0), WorkerState.IDLE),
        (beat(9999, items=4), Circumstances(alive=False, waiting=0), WorkerState.IDLE),
        (beat(9999, errors=2), Circumstances(alive=False, waiting=1), WorkerState.DEAD),
        (beat(9999), Circumstances(alive=False, waiting=3, waiting_long=1), WorkerState.DEAD),
        (beat(9999), Circumstances(alive=False, waiting=3, waiting_long=0), WorkerState.IDLE),
        (beat(9999, errors=1), Circumstances(alive=False, waiting=3, waiting_long=0), WorkerState.FAILING),
        (beat(9999), Circumstances(alive=True, waiting=1), WorkerState.OVERDUE),
        (beat(9999), Circumstances(alive=True, waiting=0), WorkerState.OVERDUE),
        (beat(5, items=1), Circumstances(alive=False, waiting=1), WorkerState.WORKING),
    ],
)
def test_what_a_heartbeat_says(heartbeat: Heartbeat, around: Circumstances, state: WorkerState) -> None:
    assert classify(heartbeat, 60, around, NOW) is state
