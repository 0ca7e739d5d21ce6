"""What happens around the workers rather than in them: the server goes and comes back, a claim goes to another."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum

from qtg_dagster.faults import FaultPoint
from tests.crash.bench import Bench
from tests.crash.boundaries import Lane
from tests.crash.nursery import Worker
from tests.crash.outcome import Outcome
from tests.crash.provider.executor import set_modes
from tests.crash.provider.server import Mode
from tests.crash.server import Absence, restart
from tests.crash.sessions import end_sessions, held_by, sessions, until_still, until_stopped
from tests.crash.spec import Role

#: From PostgreSQL's return to the first step of a movement: more is a violation.
PROGRESS_SECONDS = 5.0
_AWAY_SECONDS = 6.0
_MOVEMENTS = 12
_REACH_SECONDS = 20.0
_REST_SECONDS = 30.0


class Disturbance(StrEnum):
    """One kind of case."""

    SERVER_CRASHES = "server_crashes"
    SERVER_RESTARTS = "server_restarts"
    SERVER_AWAY = "server_away"  # crashes, and is gone for longer than one retry lasts
    SESSIONS_END = "sessions_end"
    BANK_ACTS_LATE = "bank_acts_late"  # its caller is dead, others look, and only then the money moves
    LATE_INTENT = "late_intent"
    LATE_OBSERVATION = "late_observation"
    LATE_RECOVERY = "late_recovery"


#: Where the one that is too late hangs, and where its successor holds the same node in the same state.
_LATE = {
    Disturbance.LATE_INTENT: (FaultPoint.SIGNED_UNSAVED, FaultPoint.BEFORE_SIGN),
    Disturbance.LATE_OBSERVATION: (FaultPoint.OBSERVE_RESPONSE, FaultPoint.OBSERVE_RESPONSE),
    Disturbance.LATE_RECOVERY: (FaultPoint.RECOVER_RESPONSE, FaultPoint.RECOVER_RESPONSE),
}


async def disturb(bench: Bench, kind: Disturbance, outcome: Outcome) -> None:
    """Play one disturbance on the bank's lane until everything is at rest; raises `TimeoutError` when it is not."""
    play = _Disturbed(bench, kind, outcome)
    try:
        if kind is Disturbance.BANK_ACTS_LATE:
            await play.bank_acts_late()
        else:
            await (play.too_late() if kind in _LATE else play.without_server())
        await bench.until_quiet(Lane.BANK, _REST_SECONDS)
    finally:
        await play.end()


class _Disturbed:
    def __init__(self, bench: Bench, kind: Disturbance, outcome: Outcome) -> None:
        self._bench, self._kind, self._outcome = bench, kind, outcome
        self._random = random.Random(f"{kind}:{outcome.seed}")  # noqa: S311 - a seed replays a case
        self._workers: list[Worker] = []

    async def end(self) -> None:
        for worker in self._workers:
            self._outcome.kills += not worker.exited.is_set()
            await worker.kill()

    async def _hatch(self, role: Role = Role.DRAINS, fault: str = "") -> Worker:
        worker = await self._bench.stage.nursery.hatch(self._bench.spec(role, fault=fault))
        self._workers.append(worker)
        return worker

    async def without_server(self) -> None:
        """While money moves, the server or the sessions go; work goes on soon after they can be had again."""
        bench = self._bench
        await set_modes(bench.stage.bank_socket, bench.account, [Mode.SLOW] * _MOVEMENTS)
        await bench.order(Lane.BANK, _MOVEMENTS)
        before = await sessions(bench)
        worker = await self._hatch(self._random.choice((Role.DRAINS, Role.PASSES)))

        async def begun() -> bool:
            return len(bench.booked()) > 0

        await bench.until(begun, "nothing moves", _REACH_SECONDS)
        absence = await self._strike(await sessions(bench) - before)
        self._outcome.hits += 1
        self._outcome.progress.append(max(0.0, await self._first_step(absence.gone) - absence.back))
        if self._outcome.progress[-1] > PROGRESS_SECONDS:
            self._outcome.violations.append(f"no step for {self._outcome.progress[-1]:.1f} s after the server's return")
        await bench.until_quiet(Lane.BANK, _REST_SECONDS)
        if worker.exited.is_set():
            self._outcome.violations.append("the worker did not survive the server's going")

    async def _strike(self, his: set[int]) -> Absence:
        stage = self._bench.stage
        if self._kind is Disturbance.SERVER_RESTARTS:
            return await restart(stage, signal.SIGINT)
        if self._kind is Disturbance.SERVER_AWAY:
            return await restart(stage, away_seconds=_AWAY_SECONDS)
        if self._kind is Disturbance.SERVER_CRASHES:
            return await restart(stage)
        await end_sessions(self._bench, his)
        now = time.time()
        await self._bench.order(Lane.BANK)  # new sessions may have done all that there was
        return Absence(now, now)

    async def _first_step(self, gone: float) -> float:
        found: list[float] = []

        async def recorded() -> bool:
            rows = await self._bench.rows(
                "SELECT extract(epoch FROM min(recorded_at))::float8 AS at FROM qtg.movement_node_steps "
                "WHERE to_state IS NOT NULL AND recorded_at > to_timestamp(%s)",
                gone,
            )
            found[:] = [row["at"] for row in rows if row["at"] is not None]
            return bool(found)

        await self._bench.until(recorded, "no step after the server's return", _REACH_SECONDS)
        return found[0]

    async def bank_acts_late(self) -> None:
        """Empty looks prove an absence only when they come after the settle window: the order may still be done."""
        bench = self._bench
        await set_modes(bench.stage.bank_socket, bench.account, [Mode.LATE])
        await bench.order(Lane.BANK)
        caller = await self._hatch(fault=f"{FaultPoint.SUBMIT_BYTES_SENT}:kill")
        await asyncio.wait_for(caller.exited.wait(), _REACH_SECONDS)
        self._outcome.kills += 1
        [order] = await bench.rows("SELECT idempotency_key FROM qtg.movement_node_attempts")
        await self._hatch(Role.PASSES)

        async def acted() -> bool:
            await bench.open_nodes(Lane.BANK)  # the operator has a FAILED node done again
            return any(move.client_id == order["idempotency_key"] for move in bench.booked())

        await bench.until(acted, "the bank does not act", _REACH_SECONDS)
        self._outcome.hits += 1

    async def too_late(self) -> None:
        """A worker wakes with an answer for a node that another holds by now, in the very state that it knows.

        It has lost its locks and nothing else, and the state guard lets its write pass: only the claim's fence is left.
        """
        bench = self._bench
        where, there = _LATE[self._kind]
        lost = [Mode.EXECUTE_THEN_TIMEOUT] * 2 if self._kind is Disturbance.LATE_RECOVERY else []
        await set_modes(bench.stage.bank_socket, bench.account, lost)
        await bench.order(Lane.BANK)
        before = await sessions(bench)
        late = await self._hatch(Role.PASSES, f"{where}:hang")
        await until_stopped(late, where, _REACH_SECONDS)
        his = await sessions(bench) - before
        await until_still(bench, his)
        [node] = await held_by(bench, late)
        state = await self._node(node)
        await end_sessions(bench, his & await sessions(bench, "qtg lock"))
        successor = await self._hatch(Role.PASSES, f"{there}:hang")
        await until_stopped(successor, there, _REACH_SECONDS)
        self._demand(await self._node(node) == state, "the successor finds the node in another state")
        held = await held_by(bench, successor)
        self._demand(list(held) == [node], "the successor does not hold the node")
        late.signal(signal.SIGCONT)
        await bench.until(self._refused(late), "the late write is not refused", _REACH_SECONDS)
        self._outcome.hits += 1
        self._demand(await self._node(node) == state, "the late write moved the node")
        self._demand(await held_by(bench, successor) == held, "the late write took the node from its holder")
        successor.signal(signal.SIGCONT)

    def _refused(self, late: Worker) -> Callable[[], Awaitable[bool]]:
        """Whether the late one was told: an intent by the log, for nothing may be journaled; an outcome on record."""

        async def told() -> bool:
            if self._kind is Disturbance.LATE_INTENT:
                return "no longer ours to submit" in self._bench.log.read_text(errors="replace")
            found = await self._bench.rows(
                "SELECT 1 AS one FROM qtg.movement_node_steps s JOIN qtg.runners u ON u.id = s.runner_id "
                "WHERE s.step_kind = 'fenced' AND u.pid = %s",
                late.pid,
            )
            return bool(found)

        return told

    async def _node(self, node_id: str) -> tuple[str, int]:
        """State and attempts of a node."""
        [row] = await self._bench.rows(
            "SELECT node_state, attempt_no FROM qtg.movement_request_nodes WHERE id::text = %s", node_id
        )
        return row["node_state"], row["attempt_no"]

    def _demand(self, holds: bool, words: str) -> None:
        if not holds:
            self._outcome.violations.append(words)
