"""The delivery drain: what others are to be told, carried by couriers side by side for as long as there is any.

It is no part of the core group: while it does not run nothing is lost, and no money waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from qtg_dagster.domain.observation import error_backoff
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.ports import Runner
from qtg_dagster.engine.shift import HEARTBEAT_SECONDS, Shift
from qtg_dagster.settings import Settings
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.upkeep.couriers import Courier

log = structlog.get_logger("qtg.delivery")

#: Its kind: the name of its job, its slot and its wake-ups.
DELIVER = "deliver"


@dataclass
class DeliveryReport:
    """What a delivery drain did, for the run's page."""

    runner_id: int = 0
    items: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    ended_because: str = ""


class Delivery:
    """One delivery drain. `stop` may be called from a signal handler."""

    def __init__(
        self,
        store: PostgresStore,
        settings: Settings,
        couriers: Sequence[Courier],
        *,
        dagster_run_id: str | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._rounds = [_Rounds(store, settings, courier) for courier in couriers]
        self._shift = Shift(store, settings, RunnerIdentity(DELIVER, settings.network_class, dagster_run_id))
        self.report = DeliveryReport()

    def stop(self, reason: str) -> None:
        """Begin on nothing more, finish what is in flight, end."""
        self._shift.stop(reason)

    async def run(self) -> DeliveryReport:
        """Wait for the slot, then deliver until there is a reason to end."""
        async with self._shift.registered() as runner:
            self.report.runner_id = runner.runner_id
            self.report.ended_because = await self._shift.take_slot(runner)
            if not self.report.ended_because:
                await self._deliver(runner)
            self.report.items = {each.courier.worker: each.items for each in self._rounds}
            self.report.errors = {each.courier.worker: each.errors for each in self._rounds if each.errors}
        return self.report

    async def _deliver(self, runner: Runner) -> None:
        tasks = [asyncio.create_task(each.go(runner, self._shift), name=each.courier.worker) for each in self._rounds]
        try:
            self.report.ended_because = await self._until_the_end(runner)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            grace = self._settings.drain_stop_grace_seconds
            ended = await asyncio.gather(*(each.courier.finish(grace) for each in self._rounds), return_exceptions=True)
            for each, outcome in zip(self._rounds, ended, strict=True):
                if isinstance(outcome, BaseException):
                    # What is still claimed is anybody's as soon as this runner is gone, a moment from now.
                    log.error("not finished cleanly", worker=each.courier.worker, exc_info=outcome)

    async def _until_the_end(self, runner: Runner) -> str:
        while True:
            busy = any(each.courier.in_flight for each in self._rounds)
            reason = await self._shift.reason_to_end(runner, self._work_waits, busy=busy)
            if reason:
                return reason
            self._shift.wakeups.event.clear()
            if await self._shift.woken(self._settings.drain_poll_seconds):
                for each in self._rounds:
                    each.more.set()

    async def _work_waits(self) -> bool:
        """Whether there is work, now or soon; a database that does not answer has not said that there is none."""
        horizon = max(self._settings.drain_linger_seconds, 15.0)
        try:
            waiting = [await each.courier.waiting(horizon) for each in self._rounds]
        except self._store.failures:
            log.exception("waiting items not counted")
            return True
        return any(waiting)


class _Rounds:
    """One courier's rounds: look, begin, wait. Its errors are its own; after several in a row it backs off."""

    def __init__(self, store: PostgresStore, settings: Settings, courier: Courier) -> None:
        self.courier = courier
        self.more = asyncio.Event()
        self.items = 0
        self.errors = 0
        self._store = store
        self._settings = settings
        self._in_a_row = 0
        self._last_beat = float("-inf")

    async def go(self, runner: Runner, shift: Shift) -> None:
        """Until cancelled."""
        while True:
            self.more.clear()
            if await self._round(runner):
                shift.worked()
                continue
            pause = max(error_backoff(self._in_a_row), self.courier.interval_seconds)
            try:
                async with asyncio.timeout(pause):
                    await (asyncio.sleep(pause) if self._in_a_row else self.more.wait())
            except TimeoutError:
                continue

    async def _round(self, runner: Runner) -> int:
        started = time.monotonic()
        try:
            begun = await self.courier.work(runner, self.more)
        except Exception as error:
            self.errors += 1
            self._in_a_row += 1
            log.exception("round failed", worker=self.courier.worker, consecutive_errors=self._in_a_row)
            await self._beat(started, 0, error)
            return 0
        self._in_a_row = 0
        self.items += begun
        await self._beat(started, begun, None)
        return begun

    async def _beat(self, started: float, items: int, error: BaseException | None) -> None:
        now = time.monotonic()
        if error is None and now - self._last_beat < HEARTBEAT_SECONDS:
            return
        self._last_beat = now
        took = (now - started) * 1000
        try:
            await self._store.beat(
                self._settings.network_class, self.courier.worker, duration_ms=took, items=items, error=error
            )
        except self._store.failures:
            log.exception("heartbeat not written", worker=self.courier.worker)
