"""Hot drains: one process works many nodes of one kind at once, for as long as there is work and budget.

A drain owns its work by the lock of its runner's session. It stops taking work when it loses that session, when it
is asked to stop, when its budget is spent and a successor waits, and when nothing has come for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.observation import error_backoff
from qtg_dagster.domain.work import Claim, Work
from qtg_dagster.domain.workers import RunnerIdentity, patience
from qtg_dagster.engine.dispatch import dispatch_node
from qtg_dagster.engine.observe import observe_node
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner, Wakeups
from qtg_dagster.engine.recover import claim_unknown_nodes, recover_node
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.settings import Settings

log = structlog.get_logger("qtg.drain")

#: Seconds between two heartbeats and two looks at who else is there.
HEARTBEAT_SECONDS = 5.0
#: Seconds before a node whose work failed in us is tried again.
GIVE_BACK_SECONDS = 5.0
#: Seconds until a drain that found work looks for what that claim passed over; commits that make work wake it before.
#: Looking at once would compete with what was just claimed.
_SOON_SECONDS = 0.05


class DrainKind(StrEnum):
    """What a drain works on; the values name jobs, wake-ups and slots."""

    DISPATCH = "dispatch"
    OBSERVE = "observe"
    RECOVER = "recover"


#: The runtime reference's names of the workers.
WORKER_NAMES = {
    DrainKind.DISPATCH: "node_dispatcher",
    DrainKind.OBSERVE: "node_observer",
    DrainKind.RECOVER: "node_recovery",
}
_WORK: dict[DrainKind, Callable[[Engine, Work], Awaitable[None]]] = {
    DrainKind.DISPATCH: dispatch_node,
    DrainKind.OBSERVE: observe_node,
    DrainKind.RECOVER: recover_node,
}


def overdue_seconds(settings: Settings) -> float:
    """How long a drain may be silent before it counts as one that hangs."""
    return patience(max(HEARTBEAT_SECONDS, settings.drain_poll_seconds))


@dataclass
class DrainReport:
    """What a drain did, for the run's page."""

    kind: DrainKind
    runner_id: int = 0
    nodes: int = 0
    errors: int = 0
    ended_because: str = ""
    settled_requests: set[str] = field(default_factory=set)


class Drain:
    """One drain of one kind. `stop` may be called from a signal handler."""

    def __init__(self, engine: Engine, kind: DrainKind, *, slot: int = 0, dagster_run_id: str | None = None) -> None:
        self._engine = engine
        self._store = engine.store
        self._kind = kind
        self._identity = RunnerIdentity(kind, engine.settings.network_class, dagster_run_id, slot)
        self._stop = asyncio.Event()
        self._stop_reason = ""
        self._wakeups = engine.store.wakeups(kind)
        self._full = False
        self._tasks: dict[asyncio.Task[None], Claim] = {}
        self._started = self._last_work = time.monotonic()
        self._consecutive_errors = 0
        self._looked_around = self._last_beat = float("-inf")
        self._may_hold_unworked = False
        self.report = DrainReport(kind)

    def stop(self, reason: str) -> None:
        """Take no more work, finish what is in flight, end."""
        self._stop_reason = self._stop_reason or reason
        self._stop.set()
        self._wakeups.event.set()

    async def run(self) -> DrainReport:
        """Wait for the slot (a present drain lets go when it sees us), then work until there is a reason to end."""
        async with (
            self._store.runner(self._identity) as runner,
            self._wakeups as wakeups,
        ):
            self.report.runner_id = runner.runner_id
            self.report.ended_because = await self._take_slot(runner)
            if self.report.ended_because:
                return self.report
            self._started = self._last_work = time.monotonic()
            log.info("drain works", kind=self._kind, runner=runner.runner_id)
            try:
                self.report.ended_because = await self._work(runner, wakeups)
            finally:
                await self._finish_in_flight()
            log.info("drain ends", kind=self._kind, runner=runner.runner_id, because=self.report.ended_because)
        return self.report

    async def _take_slot(self, runner: Runner) -> str:
        """Empty when the slot is ours, else why this drain ends without it."""
        taking = asyncio.create_task(runner.take_slot(overdue_seconds(self._engine.settings)))
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
            return self._lost_session(error)
        return ""

    async def _work(self, runner: Runner, wakeups: Wakeups) -> str:
        while True:
            reason = await self._reason_to_end(runner)
            if reason:
                return reason
            wakeups.event.clear()
            taken = await self._pass(runner)
            free = self._engine.settings.drain_concurrency - len(self._tasks)
            await self._wait(wakeups, free, _SOON_SECONDS if taken else self._engine.settings.drain_poll_seconds)

    async def _pass(self, runner: Runner) -> int:
        """Claim what there is room for and start on it. A failing pass counts up and backs off."""
        started = time.monotonic()
        free = self._engine.settings.drain_concurrency - len(self._tasks)
        try:
            await self._release_forgotten()
            claims = await self._claim(runner, free) if free > 0 else []
            works = await self._store.load_works(claims) if claims else []
        except self._store.failures as error:
            self._may_hold_unworked = True
            self._consecutive_errors += 1
            self.report.errors += 1
            log.exception("pass failed", kind=self._kind, consecutive_errors=self._consecutive_errors)
            await self._beat(started, 0, error)
            await self._sleep(max(error_backoff(self._consecutive_errors), self._engine.settings.drain_poll_seconds))
            return 0
        self._consecutive_errors = 0
        await self._give_back_unreadable(claims, works)
        for work in works:
            task = asyncio.create_task(self._work_one(work), name=work.claim.node_id)
            self._tasks[task] = work.claim
            task.add_done_callback(self._ended)
        if claims:
            self._last_work = time.monotonic()
            self.report.nodes += len(claims)
        await self._beat(started, len(claims), None)
        return len(claims)

    async def _claim(self, runner: Runner, free: int) -> list[Claim]:
        match self._kind:
            case DrainKind.DISPATCH:
                claims = await self._store.claim_ready(runner, free)
                if claims:
                    fault_point(FaultPoint.CLAIM_COMMIT)
            case DrainKind.OBSERVE:
                claims = await self._store.claim_due_observations(runner, free)
                if claims:
                    fault_point(FaultPoint.OBSERVE_CLAIM)
            case DrainKind.RECOVER:
                claims = await claim_unknown_nodes(self._engine, runner)
        return claims

    async def _work_one(self, work: Work) -> None:
        try:
            await _WORK[self._kind](self._engine, work)
        except Exception:
            self.report.errors += 1
            log.exception("node not worked", kind=self._kind, node=work.claim.node_id)
            await self._give_back(work.claim)
        else:
            self.report.settled_requests.add(work.claim.request_id)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if self._full:
            self._wakeups.event.set()

    async def _give_back_unreadable(self, claims: list[Claim], works: list[Work]) -> None:
        read = {work.claim.node_id for work in works}
        for claim in claims:
            if claim.node_id not in read:
                self.report.errors += 1
                log.error("node not worked: it cannot be read", kind=self._kind, node=claim.node_id)
                await self._give_back(claim)

    async def _give_back(self, claim: Claim) -> None:
        """A node whose work failed in us may be claimed again by anyone, but not in a hot loop."""
        try:
            await self._store.release([claim], delay_seconds=GIVE_BACK_SECONDS)
        except self._store.failures:
            self._may_hold_unworked = True
            log.exception("claim not given back yet", node=claim.node_id)

    async def _release_forgotten(self) -> None:
        """Let go of what is ours in the database and not in work here: as long as we live, nobody else could."""
        if not self._may_hold_unworked:
            return
        self._may_hold_unworked = False
        in_work = {claim.node_id for claim in self._tasks.values()}
        try:
            many = await self._store.release_forgotten(self.report.runner_id, in_work, delay_seconds=GIVE_BACK_SECONDS)
        except BaseException:
            self._may_hold_unworked = True
            raise
        if many:
            log.warning("claims without a worker given back", kind=self._kind, nodes=many)

    async def _wait(self, wakeups: Wakeups, free: int, seconds: float) -> None:
        """Until woken, stopped, the time is over, or (when full) a place becomes free."""
        self._full = free <= 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wakeups.event.wait()
        self._full = False

    async def _reason_to_end(self, runner: Runner) -> str:
        if self._stop.is_set():
            return self._stop_reason
        settings = self._engine.settings
        now = time.monotonic()
        if now - self._looked_around < min(HEARTBEAT_SECONDS, settings.drain_poll_seconds):
            return ""
        self._looked_around = now
        try:
            succeeded = await runner.successor_waits()
        except StaleClaim as error:
            return self._lost_session(error)
        if succeeded and now - self._started >= settings.drain_budget_seconds:
            return "handed over to its successor"
        if now - self._started >= settings.drain_budget_seconds * 3:
            return "budget spent"
        if not self._tasks and now - self._last_work >= settings.drain_linger_seconds:
            return "" if await self._work_waits() else "idle"
        return ""

    async def _work_waits(self) -> bool:
        """Whether there is work, now or soon; a database that does not answer has not said that there is none."""
        settings = self._engine.settings
        horizon = max(settings.drain_linger_seconds, 15.0)
        try:
            backlog = await self._store.count_backlog(settings.network_class, horizon_seconds=horizon)
        except self._store.failures:
            log.exception("backlog not counted", kind=self._kind)
            return True
        return bool(backlog.of(self._kind))

    def _lost_session(self, error: Exception) -> str:
        log.warning("runner lost its session; this drain takes no more work", error=str(error))
        return "lost its database session"

    async def _finish_in_flight(self) -> None:
        """Let what is in flight finish within the grace; what does not is left to recovery."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=self._engine.settings.drain_stop_grace_seconds)
        for task in late:
            log.warning("left to recovery", task=task.get_name())
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _beat(self, started: float, items: int, error: BaseException | None) -> None:
        now = time.monotonic()
        if error is None and now - self._last_beat < HEARTBEAT_SECONDS:
            return
        self._last_beat = now
        try:
            await self._store.beat(
                self._engine.settings.network_class,
                WORKER_NAMES[self._kind],
                duration_ms=(now - started) * 1000,
                items=items,
                error=error,
            )
        except self._store.failures:
            log.exception("heartbeat not written", kind=self._kind)

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
