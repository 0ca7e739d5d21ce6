"""Outcomes reach the outbox together, also when the database is away for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
import pytest

from qtg_dagster.callbacks import recording
from qtg_dagster.callbacks.recording import OutcomeRecorder
from qtg_dagster.domain.callbacks import (
    Attempt,
    CallbackStatus,
    ClaimedCallback,
    Outcome,
    Settlement,
    Verdict,
)


def outcome(number: int) -> Outcome:
    callback = ClaimedCallback(number, 1, "r", "e", "t", 1, "https://h.example/", "h.example", b"{}", 0, "n", 0)
    return Outcome(callback, Attempt(Verdict.DELIVERED, 204), Settlement(CallbackStatus.DELIVERED, 0))


class Outbox:
    """Keeps what it is given, fails as often as it is told, and says which are taken over."""

    def __init__(self, failures: int = 0, gone: frozenset[int] = frozenset()) -> None:
        self.failures = failures
        self.gone = gone
        self.batches: list[list[int]] = []

    async def settle(self, runner_id: int, outcomes: Sequence[Outcome]) -> frozenset[int]:  # noqa: ARG002
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise psycopg.OperationalError("the server went away")
        self.batches.append([each.callback.callback_id for each in outcomes])
        return frozenset(self.batches[-1]) - self.gone


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_WAITS", (0.0, 0.0))


async def test_what_comes_together_is_committed_together_and_each_learns_its_own() -> None:
    outbox = Outbox(gone=frozenset({3}))
    recorder = OutcomeRecorder(outbox)  # type: ignore[arg-type]
    found = await asyncio.gather(*(recorder.record(7, outcome(number)) for number in range(100)))
    assert found == [number != 3 for number in range(100)]
    assert [len(batch) for batch in outbox.batches] == [64, 36]


async def test_a_database_that_comes_back_loses_nothing() -> None:
    outbox = Outbox(failures=2)
    recorder = OutcomeRecorder(outbox)  # type: ignore[arg-type]
    assert await recorder.record(7, outcome(1))
    assert outbox.batches == [[1]]


async def test_one_that_stays_away_is_said_and_the_next_outcome_is_tried_all_the_same() -> None:
    outbox = Outbox(failures=3)
    recorder = OutcomeRecorder(outbox)  # type: ignore[arg-type]
    with pytest.raises(psycopg.OperationalError):
        await recorder.record(7, outcome(1))
    assert await recorder.record(7, outcome(2))
