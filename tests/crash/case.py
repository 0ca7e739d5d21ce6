"""One case: a worker is killed, fails or hangs at a boundary; others go on; then everything is judged."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time

from qtg_dagster.faults import FaultAction, FaultPoint
from tests.crash import losing
from tests.crash.bench import Bench
from tests.crash.boundaries import WORLD_LANES, Cell, Lane
from tests.crash.nursery import Worker
from tests.crash.outcome import Outcome, judged
from tests.crash.provider.executor import set_modes
from tests.crash.provider.server import Mode
from tests.crash.sessions import end_sessions, held_by, sessions, until_still, until_stopped
from tests.crash.spec import Role
from tests.crash.telling import TELLING, all_is_told, claimed, others_are_told

P = FaultPoint
_RECOVERING = frozenset({P.RECOVER_CLAIM, P.RECOVER_RESPONSE})
#: What passes them decides on movements that wait for approval.
_UNDECIDED = frozenset({P.APPROVE, P.EXPIRE})
_CLAIMING = frozenset({P.CLAIM_COMMIT, P.OBSERVE_CLAIM, P.RECOVER_CLAIM})
#: Where a stopped worker holds an answer that it writes down after it woke: too late, and on record as that.
_LATE_WRITES = frozenset({P.RESPONSE_UNCOMMITTED, P.OBSERVE_RESPONSE, P.RECOVER_RESPONSE})
#: So many nodes are kept open while workers die: one for each boundary to meet, and others around it.
_FEW = 3
_REACH_SECONDS = 20.0
_REST_SECONDS = 15.0


class Case:
    """Runs one cell once on a bench."""

    def __init__(self, bench: Bench, cell: Cell, seed: int, kills: int = 2) -> None:
        self._bench = bench
        self._cell = cell
        self._random = random.Random(f"{cell}:{seed}")  # noqa: S311 - a seed replays a case
        # Each death takes a window of the cycle for good, and one must be left.
        self._kills = min(kills, 2) if cell.point is P.CYCLE_INSERT else kills
        # A promoter passes before its commit, and behind it, where one that hangs holds nothing.
        either = cell.point is P.AUDIT_PROMOTE and cell.action is not FaultAction.HANG
        self._passing = self._random.choice((1, 2)) if either else 1
        self._workers: list[Worker] = []
        self.outcome = Outcome(cell, seed)

    async def run(self) -> Outcome:
        """All of it; whatever goes wrong is a violation of this case."""
        try:
            async with judged(self._bench, self.outcome, self._cell.lane):
                await self._bench.begin(with_world=self._cell.lane in WORLD_LANES)
                try:
                    await self._play()
                except TimeoutError:
                    await self._explain()
                    raise
        finally:
            for worker in self._workers:
                await worker.kill()
        return self.outcome

    async def _explain(self) -> None:
        """For a case that does not end: notes where the nodes stand; the workers tell their logs what they do."""
        for worker in self._workers:
            worker.signal(signal.SIGUSR1)
        found = await self._bench.rows(
            "SELECT n.node_key, n.node_state, n.error_code, n.runner_id, n.next_look_at - now() AS wait, "
            "n.runner_id IN (SELECT runner_id FROM qtg.live_runners) AS held FROM qtg.movement_request_nodes n "
            "WHERE n.node_state NOT IN ('COMPLETED', 'BLOCKED')"
        )
        self.outcome.notes += [" ".join(f"{name}={value}" for name, value in row.items()) for row in found]
        await asyncio.sleep(0.5)

    async def _play(self) -> None:
        cell = self._cell
        await self._set_the_scene()
        if cell.point is P.COMMIT_ACK_LOST:
            await losing.play(self)
        elif cell.point is P.NONCE_RELEASE:
            await self._release_a_nonce()
        elif cell.action is FaultAction.KILL:
            await self._kill_again_and_again(self._role())
        elif cell.action is FaultAction.RAISE:
            await self._raise(self._role())
        else:
            await self._hang(self._role())
        await self._finish()

    # -- the scene

    def _role(self) -> Role:
        roles = {
            P.APPROVE: Role.APPROVE,
            P.EXPIRE: Role.EXPIRE,
            P.CYCLE_INSERT: Role.CYCLE,
            P.AUDIT_PROMOTE: Role.PROMOTE,
            P.CALLBACK_CLAIM: Role.DELIVER,
            P.CALLBACK_SENT_UNSAVED: Role.DELIVER,
        }
        return roles.get(self._cell.point, Role.DRAINS)

    async def _order(self, many: int = 1) -> None:
        """Movements that the boundary's role has something to do with."""
        point = self._cell.point
        ttl = 1 if point is P.EXPIRE else None
        await self._bench.order(self._cell.lane, many, approved=point not in _UNDECIDED, ttl=ttl)

    async def _set_the_scene(self) -> None:
        cell, bench = self._cell, self._bench
        recovering = cell.point in _RECOVERING
        if cell.lane in (Lane.BANK, Lane.DESK):
            await set_modes(bench.stage.bank_socket, bench.account, self._modes(lost=recovering))
        await self._order(3)
        if recovering and cell.lane is not Lane.BANK:
            first = await self.hatch(fault=f"{P.RESPONSE_UNCOMMITTED}:kill")
            await asyncio.wait_for(first.exited.wait(), _REACH_SECONDS)
            bench.mark.unlink()
            self.outcome.kills += 1

    def _modes(self, *, lost: bool) -> list[str]:
        fair = [Mode.OK] * 6 + [Mode.SLOW, Mode.DUPLICATE_RESPONSE, Mode.STALE_READ]
        unkind = [Mode.EXECUTE_THEN_TIMEOUT, Mode.EXECUTE_THEN_500, Mode.LATE, Mode.NEVER, Mode.ERROR_BEFORE]
        if lost:
            return [str(mode) for mode in self._random.sample(unkind, 3)]
        modes = self._random.choices(fair, k=4)
        if self._random.random() < 0.2:
            modes[self._random.randrange(4)] = self._random.choice(unkind)
        return [str(mode) for mode in modes]

    async def hatch(self, role: Role = Role.DRAINS, *, fault: str = "", url: str | None = None) -> Worker:
        worker = await self._bench.stage.nursery.hatch(self._bench.spec(role, fault=fault, url=url))
        self._workers.append(worker)
        return worker

    async def hatch_rival(self) -> Worker:
        """Another machine's worker, which needs none of the slots that somebody hangs on."""
        return await self.hatch(Role.PASSES)

    @property
    def bench(self) -> Bench:
        return self._bench

    @property
    def cell(self) -> Cell:
        return self._cell

    @property
    def fault(self) -> str:
        return f"{self._cell.point}:{self._cell.action}:{self._passing}"

    # -- what happens

    async def _kill_again_and_again(self, role: Role) -> None:
        for number in range(self._kills):
            if number and len(await self._bench.open_nodes(self._cell.lane)) < _FEW:
                await self._order()
            before = len(self._bench.marks())
            worker = await self.hatch(role, fault=self.fault)
            await self._until_dead_or_at_rest(worker)
            self.outcome.kills += 1
            if len(self._bench.marks()) == before:
                break  # nothing is left that would reach the boundary
            self.outcome.hits += 1
            await self._claims_were_real(worker)

    async def _until_dead_or_at_rest(self, worker: Worker) -> None:
        deadline = time.monotonic() + _REACH_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(worker.exited.wait(), 0.3)
                return
            if not await self._bench.open_nodes(self._cell.lane) and self._cell.lane is not Lane.DESK:
                break
        await worker.kill()

    async def _claims_were_real(self, worker: Worker) -> None:
        """A boundary after a claim was passed with a claim in hand: the dead one still stands on what he claimed."""
        if self._cell.point in TELLING and not await claimed(self._bench):
            self.outcome.violations.append(f"{self._cell.point} acted without a claim")
        if self._cell.point not in _CLAIMING:
            return
        if not await held_by(self._bench, worker):
            self.outcome.hits -= 1
            self.outcome.violations.append(f"{self._cell.point} acted without a claim")

    async def _raise(self, role: Role) -> None:
        worker = await self.hatch(role, fault=self.fault)
        await self._until_marked()
        self.outcome.hits += 1
        if role is Role.DRAINS:
            await self._bench.until_quiet(self._cell.lane, _REST_SECONDS)
            if worker.exited.is_set():
                self.outcome.violations.append("the worker did not survive an error inside it")
        await worker.kill()
        self.outcome.kills += 1

    async def _until_marked(self) -> None:
        async def marked() -> bool:
            return bool(self._bench.marks())

        await self._bench.until(marked, f"{self.fault} was not reached", _REACH_SECONDS)

    async def _hang(self, role: Role) -> None:
        """Somebody hangs and keeps his lock: nobody takes what is his, and everybody else goes on."""
        before = await sessions(self._bench)
        hung = await self.hatch(role, fault=self.fault)
        await until_stopped(hung, self.fault, _REACH_SECONDS)
        self.outcome.hits += 1
        await self._claims_were_real(hung)
        his = await sessions(self._bench) - before
        await until_still(self._bench, his)
        nodes, callbacks = await held_by(self._bench, hung), await claimed(self._bench)
        rival = await self.hatch_rival()
        await self.others_go_on()
        if await held_by(self._bench, hung) != nodes:
            self.outcome.violations.append("O5: a node was taken from a runner that lives")
        if self._cell.point is P.AUDIT_PROMOTE:
            await self._all_is_promoted()
        if self._cell.point in TELLING:
            await self.hatch(Role.DELIVER)
            self.outcome.violations += await others_are_told(self._bench, callbacks)
        if self._random.random() < 0.5 or self._cell.point is P.CYCLE_INSERT:
            await hung.kill()
            self.outcome.kills += 1
        else:
            await self._wake_too_late(hung, his, nodes)
        if self._cell.point in _UNDECIDED:
            await self.hatch(role)
        await self._bench.until_quiet(self._cell.lane, _REST_SECONDS)
        await rival.kill()
        self.outcome.kills += 1

    async def others_go_on(self, seconds: float = _REACH_SECONDS) -> None:
        """A movement that comes now ends, whoever hangs."""
        [other] = await self._bench.order(Lane.BANK)

        async def done() -> bool:
            found = await self._bench.rows(
                "SELECT 1 AS one FROM qtg.movement_requests WHERE id::text = %s AND finished_at IS NOT NULL "
                "UNION ALL SELECT 1 FROM qtg.movement_requests WHERE id::text = %s "
                "AND request_state IN ('FAILED', 'MANUAL_INTERVENTION')",
                other,
                other,
            )
            return bool(found)

        await self._bench.until(done, "nobody goes on while one worker hangs", seconds)

    async def _wake_too_late(self, hung: Worker, his: set[int], held: dict[str, int]) -> None:
        """His sessions die while he sleeps; others take over; then he wakes and finds that it is too late."""
        await end_sessions(self._bench, his)
        if held:
            await self._bench.until_quiet(self._cell.lane, _REST_SECONDS)
        hung.signal(signal.SIGCONT)
        if held and self._cell.point in _LATE_WRITES:

            async def fenced() -> bool:
                found = await self._bench.rows(
                    "SELECT count(*) AS many FROM qtg.movement_node_steps WHERE step_kind = 'fenced'"
                )
                return bool(found[0]["many"])

            await self._bench.until(fenced, "the late write is not on record as fenced", 10)
        else:

            async def noticed() -> bool:
                said = self._bench.log.read_text(errors="replace")
                return hung.exited.is_set() or any(
                    words in said for words in ("lost its session", "drain died", "not started", "fenced", "failed")
                )

            await self._bench.until(noticed, "the woken worker notices nothing", 10)
        await hung.kill()
        self.outcome.kills += 1

    async def _release_a_nonce(self) -> None:
        """A nonce was reserved for what is called off; whoever gives it back is killed, fails or hangs."""
        from qtg_dagster.engine.requests import cancel_movement

        bench = self._bench
        first = await self.hatch(fault=f"{P.BEFORE_SIGN}:kill")
        await asyncio.wait_for(first.exited.wait(), _REACH_SECONDS)
        bench.mark.unlink()
        held = await bench.rows(
            "SELECT n.request_id::text AS id FROM qtg.evm_nonce_reservation v "
            "JOIN qtg.movement_request_nodes n ON n.id = v.request_node_id"
        )
        await cancel_movement(bench.platform.engine, held[0]["id"], actor="ada", reason="not needed any more")
        if self._cell.action is FaultAction.KILL:
            reaper = await self.hatch(Role.REAP, fault=self.fault)
            await asyncio.wait_for(reaper.exited.wait(), _REACH_SECONDS)
        elif self._cell.action is FaultAction.RAISE:
            await self.hatch(Role.REAP, fault=self.fault)
            await self._until_marked()
        else:
            reaper = await self.hatch(Role.REAP, fault=self.fault)
            await asyncio.wait_for(reaper.stopped.wait(), _REACH_SECONDS)
            await reaper.kill()
        self.outcome.hits += 1
        self.outcome.kills += 2
        await self.hatch(Role.REAP)

        async def released() -> bool:
            left = await bench.rows(
                "SELECT 1 AS one FROM qtg.evm_nonce_reservation WHERE reservation_state = 'RESERVED'"
            )
            return not left

        await bench.until(released, "the nonce is not given back", _REACH_SECONDS)

    # -- the end

    async def _finish(self) -> None:
        """A last worker brings everything to rest; the time to its first move is on record."""
        [waiting] = await self._bench.order(Lane.BANK)
        if self._cell.point in _UNDECIDED:
            await self.hatch(self._role())
            await self._until_all_decided()
        if self._cell.point is P.CYCLE_INSERT:
            await self._other_windows_are_served()
        if self._cell.point is P.AUDIT_PROMOTE:
            await self._all_is_promoted()
        moves = len(self._bench.booked())
        last = await self.hatch()
        await self._first_move(last, moves)
        await self._bench.until_quiet(self._cell.lane, _REST_SECONDS)
        if self._cell.point in TELLING:
            await self.hatch(Role.DELIVER)
            await all_is_told(self._bench)
        if last.exited.is_set():
            self.outcome.violations.append("the last worker died")
        del waiting

    async def _first_move(self, worker: Worker, moves: int) -> None:
        async def moved() -> bool:
            await self._bench.open_nodes(self._cell.lane)  # on a busy machine even an order may come too late
            return len(self._bench.booked()) > moves

        await self._bench.until(moved, "no move after the restart", _REACH_SECONDS)
        self.outcome.restarts.append(self._bench.booked()[moves].at - worker.hatched_at)

    async def _until_all_decided(self) -> None:
        async def none_waits() -> bool:
            left = await self._bench.rows(
                "SELECT 1 AS one FROM qtg.movement_requests WHERE request_state = 'PENDING_APPROVAL'"
            )
            return not left

        await self._bench.until(none_waits, "a movement waits for ever", _REACH_SECONDS)

    async def _all_is_promoted(self) -> None:
        """Whoever hangs or died: another promoter brings every entry into the chain."""
        await self.hatch(Role.PROMOTE)

        async def none_waits() -> bool:
            return not await self._bench.rows("SELECT 1 AS one FROM qtg.audit_outbox WHERE promoted_at IS NULL")

        await self._bench.until(none_waits, "an audit entry is never promoted", _REACH_SECONDS)

    async def _other_windows_are_served(self) -> None:
        """The window that somebody died in stays taken; the ones after it are served."""
        await self.hatch(Role.CYCLE)

        async def served() -> bool:
            found = await self._bench.rows("SELECT count(*) AS many FROM qtg.cycles")
            return bool(found[0]["many"] == 3)

        await self._bench.until(served, "windows are left out", _REACH_SECONDS)
