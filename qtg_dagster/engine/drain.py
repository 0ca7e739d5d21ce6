"""Hot drains: one process works many nodes of one kind at once, for as long as there is work and budget.

A drain owns its work by the lock of its runner's session. It stops taking work when it loses that session, when it
is asked to stop, when its budget is spent and a successor waits, and when nothing has come for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from qtg_dagster.domain.observation import error_backoff
from qtg_dagster.domain.work import Claim, Work
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_node
from qtg_dagster.engine.observe import observe_node
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner
from qtg_dagster.engine.recover import claim_unknown_nodes, recover_node
from qtg_dagster.engine.shift import HEARTBEAT_SECONDS, Shift
from qtg_dagster.faults import FaultPoint, fault_point

log = structlog.get_logger("qtg.drain")

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
        identity = RunnerIdentity(kind, engine.settings.network_class, dagster_run_id, slot)
        self._shift = Shift(engine.store, engine.settings, identity)
        self._full = False
        self._tasks: dict[asyncio.Task[None], Claim] = {}
        self._consecutive_errors = 0
        self._last_beat = float("-inf")
        self._may_hold_unworked = False
        self.report = DrainReport(kind)

    def stop(self, reason: str) -> None:
        """Take no more work, finish what is in flight, end."""
        self._shift.stop(reason)

    async def run(self) -> DrainReport:
        """Wait for the slot (a present drain lets go when it sees us), then work until there is a reason to end."""
        async with self._shift.registered() as runner:
            self.report.runner_id = runner.runner_id
            self.report.ended_because = await self._shift.take_slot(runner)
            if self.report.ended_because:
                return self.report
            log.info("drain works", kind=self._kind, runner=runner.runner_id)
            try:
                self.report.ended_because = await self._work(runner)
            finally:
                await self._finish_in_flight()
            log.info("drain ends", kind=self._kind, runner=runner.runner_id, because=self.report.ended_because)
        return self.report

    async def _work(self, runner: Runner) -> str:
        while True:
            reason = await self._shift.reason_to_end(runner, self._work_waits, busy=bool(self._tasks))
            if reason:
                return reason
            self._shift.wakeups.event.clear()
            taken = await self._pass(runner)
            free = self._engine.settings.drain_concurrency - len(self._tasks)
            await self._wait(free, _SOON_SECONDS if taken else self._engine.settings.drain_poll_seconds)

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
            await self._shift.sleep(
                max(error_backoff(self._consecutive_errors), self._engine.settings.drain_poll_seconds)
            )
            return 0
        self._consecutive_errors = 0
        await self._give_back_unreadable(claims, works)
        for work in works:
            task = asyncio.create_task(self._work_one(work), name=work.claim.node_id)
            self._tasks[task] = work.claim
            task.add_done_callback(self._ended)
        if claims:
            self._shift.worked()
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
            self._shift.wakeups.event.set()

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

    async def _wait(self, free: int, seconds: float) -> None:
        """Until woken, stopped, the time is over, or (when full) a place becomes free."""
        self._full = free <= 0
        await self._shift.woken(seconds)
        self._full = False

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
