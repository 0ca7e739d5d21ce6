"""One runner's time in a slot: when it begins, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.workers import RunnerIdentity, patience
from qtg_dagster.engine.ports import Runner, Runners
from qtg_dagster.settings import Settings

log = structlog.get_logger("qtg.drain")

#: Seconds between two heartbeats and two looks at who else is there.
HEARTBEAT_SECONDS = 5.0


def overdue_seconds(settings: Settings) -> float:
    """How long a drain may be silent before it counts as one that hangs."""
    return patience(max(HEARTBEAT_SECONDS, settings.drain_poll_seconds))


class Shift:
    """A runner is registered, waits for its slot, and is told when to end: it loses its session, is asked to stop,
    has spent its budget while a successor waits, or nothing has come for a while.
    """

    def __init__(self, store: Runners, settings: Settings, identity: RunnerIdentity) -> None:
        self.identity = identity
        self.wakeups = store.wakeups(identity.kind)
        self._store = store
        self._settings = settings
        self._stop = asyncio.Event()
        self._stop_reason = ""
        self._started = self._last_work = time.monotonic()
        self._looked_around = float("-inf")

    def stop(self, reason: str) -> None:
        """Take no more work and end; may be called from a signal handler."""
        self._stop_reason = self._stop_reason or reason
        self._stop.set()
        self.wakeups.event.set()

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[Runner]:
        """The runner, with word of new work, while the block runs."""
        async with self._store.runner(self.identity) as runner, self.wakeups:
            yield runner

    async def take_slot(self, runner: Runner) -> str:
        """Wait for the slot (a present drain lets go when it sees us); empty once it is ours, else why not."""
        taking = asyncio.create_task(runner.take_slot(overdue_seconds(self._settings)))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not taking.done():
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            return self._stop_reason
        try:
            taking.result()
        except StaleClaim as error:
            return _lost_session(error)
        self._started = self._last_work = time.monotonic()
        return ""

    def worked(self) -> None:
        """There was work just now."""
        self._last_work = time.monotonic()

    async def reason_to_end(self, runner: Runner, work_waits: Callable[[], Awaitable[bool]], *, busy: bool) -> str:
        """Empty while it goes on. `work_waits` is asked of one that is idle: is there work, now or soon?"""
        if self._stop.is_set():
            return self._stop_reason
        now = time.monotonic()
        if now - self._looked_around < min(HEARTBEAT_SECONDS, self._settings.drain_poll_seconds):
            return ""
        self._looked_around = now
        try:
            succeeded = await runner.successor_waits()
        except StaleClaim as error:
            return _lost_session(error)
        if succeeded and now - self._started >= self._settings.drain_budget_seconds:
            return "handed over to its successor"
        if now - self._started >= self._settings.drain_budget_seconds * 3:
            return "budget spent"
        if not busy and now - self._last_work >= self._settings.drain_linger_seconds:
            return "" if await work_waits() else "idle"
        return ""

    async def woken(self, seconds: float) -> bool:
        """Wait that long for word of new work; whether any came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self.wakeups.event.wait()
        return False

    async def sleep(self, seconds: float) -> None:
        """That long, or until it is asked to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)


def _lost_session(error: Exception) -> str:
    log.warning("runner lost its session; this drain takes no more work", error=str(error))
    return "lost its database session"
