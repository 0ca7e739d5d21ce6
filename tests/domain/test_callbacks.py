"""What an answer means, and when the next attempt is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.callbacks import (
    Attempt,
    CallbackStatus,
    ClaimedCallback,
    Verdict,
    backoff_seconds,
    judge_status,
    settle,
)


def callback(attempts: int) -> ClaimedCallback:
    return ClaimedCallback(1, 1, "r", "e", "t", 1, "https://h.example/", "h.example", b"{}", 0, "n", attempts)


def test_waits_double_up_to_64_seconds() -> None:
    assert [backoff_seconds(attempts) for attempts in range(1, 9)] == [2, 4, 8, 16, 32, 64, 64, 64]


@given(st.integers(100, 599))
def test_every_status_has_one_meaning(status: int) -> None:
    verdict = judge_status(status)
    assert (verdict is Verdict.DELIVERED) == (200 <= status <= 299)
    assert (verdict is Verdict.REFUSED) == (400 <= status <= 499 and status not in (408, 425, 429))


def test_the_last_attempt_ends_in_the_dlq_and_a_refusal_at_once() -> None:
    failed = Attempt(Verdict.FAILED)
    outcomes = [settle(callback(n), failed, max_attempts=5, patience_seconds=0) for n in range(5)]
    assert [(each.status, each.attempts, each.wait_seconds) for each in outcomes] == [
        (CallbackStatus.PENDING, 1, 2),
        (CallbackStatus.PENDING, 2, 4),
        (CallbackStatus.PENDING, 3, 8),
        (CallbackStatus.PENDING, 4, 16),
        (CallbackStatus.DLQ, 5, 0),
    ]
    refused = settle(callback(0), Attempt(Verdict.REFUSED), max_attempts=5, patience_seconds=0)
    assert (refused.status, refused.attempts) == (CallbackStatus.DLQ, 1)


@pytest.mark.parametrize(("asked", "wait"), [(None, 2), (0, 2), (60, 60), (9999, 900)])
def test_a_receivers_wish_lengthens_the_wait_up_to_a_bound(asked: float | None, wait: float) -> None:
    attempt = Attempt(Verdict.FAILED, 429, retry_after=asked)
    assert settle(callback(0), attempt, max_attempts=5, patience_seconds=900).wait_seconds == wait


def test_a_delivery_leaves_the_count_of_failures_alone() -> None:
    done = settle(callback(3), Attempt(Verdict.DELIVERED, 204), max_attempts=5, patience_seconds=900)
    assert (done.status, done.attempts) == (CallbackStatus.DELIVERED, 3)
