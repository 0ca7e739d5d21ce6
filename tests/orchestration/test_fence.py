"""What ends a drain from outside, and what must not disturb it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace

import dagster as dg
import pytest

from qtg_dagster.jobs import fence
from qtg_dagster.jobs.fence import RunFence


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "_PARENT_SECONDS", 0.01)
    monkeypatch.setattr(fence, "_STATUS_EVERY", 2)


async def told(instance: object, then: Callable[[], None] = lambda: None) -> tuple[str, bool]:
    """The reason the fence gives for stopping, and whether it counts as an interruption."""
    reasons: asyncio.Queue[str] = asyncio.Queue()
    with RunFence(instance, "run", reasons.put_nowait) as watching:
        then()
        return await asyncio.wait_for(reasons.get(), 10), watching.interrupted


def instance_with(status: dg.DagsterRunStatus | None) -> object:
    run = SimpleNamespace(status=status) if status else None
    return SimpleNamespace(get_run_by_id=lambda _: run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_drain_and_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    reason, interrupted = await told(instance_with(dg.DagsterRunStatus.STARTED), lambda: os.kill(os.getpid(), number))
    assert (reason, interrupted) == ("terminated", True)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED, None])
async def test_a_run_that_is_no_longer_going_on_stops_its_drain(status: dg.DagsterRunStatus | None) -> None:
    reason, interrupted = await told(instance_with(status))
    assert reason.startswith("its run is")
    assert interrupted


async def test_a_dead_parent_stops_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    def orphan() -> None:
        monkeypatch.setattr(os, "getppid", lambda: 1)

    reason, _ = await told(instance_with(dg.DagsterRunStatus.STARTED), orphan)
    assert reason == "its parent process is gone"


async def test_an_event_log_that_fails_or_hangs_disturbs_nothing() -> None:
    looked, release = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        if looked.is_set():
            release.wait(30)
        looked.set()
        raise ConnectionError("event log away")

    stopped: list[str] = []
    with RunFence(SimpleNamespace(get_run_by_id=hang), "run", stopped.append):
        assert await asyncio.to_thread(looked.wait, 10)
        await asyncio.wait_for(asyncio.sleep(0), 1)
    release.set()
    assert stopped == []
