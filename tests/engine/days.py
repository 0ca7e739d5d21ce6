"""Random movements through random days, as a Hypothesis state machine over any store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qtg_dagster.domain.errors import ApprovalExpired, Conflict
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.adoption import adopt
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.expiry import expire_pending_requests
from qtg_dagster.engine.interventions import resume_movement, retry_node, skip_node
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner, Store
from qtg_dagster.engine.requests import approve_movement, cancel_movement, complete_manual_node
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AccountEntry, AssetEntry, Inventory
from qtg_dagster.settings import Settings
from tests.engine import plans
from tests.engine.gates import Gate, GatedStore, Loss, Point, Waiting, settle
from tests.engine.grounds import UNSETTLED, Ground, Row
from tests.engine.model import Fate, Look, TruthfulExecutor, World, check_journal, check_nodes
from tests.engine.reference import TERMS, Movement, Process, any_plan

T = TypeVar("T")

#: States in which a movement does not go on by itself, and none in which a person could let it.
ENDED = frozenset({"COMPLETED", "CANCELLED", "EXPIRED"})
FINAL_NODES = frozenset({"COMPLETED", "SKIPPED", "CANCELLED"})
INVENTORY = Inventory.model_construct(
    assets={"USDC": AssetEntry(symbol="USDC", decimals=6)},
    accounts={"treasury": AccountEntry(chain="eip155:1", address="0x" + "11" * 20)},
)
SETTINGS = Settings(
    database_url="postgresql://nowhere/qtg",
    drain_concurrency=3,
    drain_poll_seconds=0.0001,
    observe_timeout_enforcement_enabled=True,
)
APPROVAL_SECONDS = SETTINGS.approval_ttl_seconds
#: Longer than every delay.
LATER = 4000.0


async def _no_time(_: float) -> None:
    """What a day waits for is its own clock."""


class Days(RuleBasedStateMachine):
    """Several movements, several processes, people, and everything that can go wrong between them."""

    new_ground: Callable[[], Ground]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)
        self.ground = self.do(self._open())
        self.world = World()
        self.processes: list[Process] = []
        self.movements: list[Movement] = []
        self.people = self._engine(self.ground.store, Gate(opened=True))
        self.problems: list[str] = []
        self.hands = 0
        self.elapsed = 0.0

    async def _open(self) -> Ground:
        return type(self).new_ground()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def _engine(self, store: Store, gate: Gate) -> Engine:
        executors = ExecutorRegistry()
        for name, key in (("move", None), ("watch", None), ("keyed", "one-at-a-time")):
            executors.register(f"exec.local.{name}", TruthfulExecutor(self.world, gate, key))
        return Engine(store, SETTINGS, INVENTORY, executors, SignerRegistry(), self.ground.clock)

    # -- what movements there are

    @property
    def going(self) -> list[Movement]:
        return [movement for movement in self.movements if not movement.ended]

    def here(self) -> set[str]:
        return {state for movement in self.going for state in movement.node_states().values()}

    @precondition(lambda self: len(self.going) < 2)
    @rule(plan=any_plan() | st.just(plans.diamond()), at_once=st.sampled_from([True, True, True, False]))
    def order(self, plan: Plan, at_once: bool) -> None:
        terms = [node.model_copy(update={"config": TERMS}) if node.has_side_effect else node for node in plan.nodes]
        plan = plan.model_copy(update={"nodes": tuple(terms)})
        movement = Movement(self.do(plans.create(self.people, plan)), plan, self.elapsed)
        self.movements.append(movement)
        if at_once:
            self.do(approve_movement(self.people, movement.request_id, actor="grace"))
            movement.approved = True

    # -- processes, step by step

    def _begin(self, kind: DrainKind, *, opened: bool) -> Process:
        gate = Gate(opened=opened, problems=self.problems)
        engine = self._engine(GatedStore(self.ground, gate), gate)  # type: ignore[arg-type]
        runner = self.do(self._alive(self.ground.store.runner(RunnerIdentity(kind, "sandbox"))))
        drain = Drain(engine, kind)
        drain.report.runner_id = runner.runner_id
        drain._shift.sleep = _no_time  # type: ignore[method-assign]
        process = Process(kind, drain, engine, runner, gate)
        self.processes.append(process)
        self._pass(process)
        return process

    async def _alive(self, runner: Runner) -> Runner:
        return await runner.__aenter__()

    def _pass(self, process: Process) -> None:
        async def start() -> None:
            process.passing = asyncio.create_task(process.drain._pass(process.runner))

        self.do(start())
        self._settle()

    def _settle(self) -> None:
        self.do(settle(*(process.gate for process in self.processes)))
        for process in [each for each in self.processes if not each.works]:
            self._end(process)

    def _end(self, process: Process) -> None:
        """Nothing of its last pass is left: it sweeps what it may have forgotten, and ends as processes do."""
        process.gate.opened = True
        self.do(process.drain._release_forgotten())
        left = [place for place in self.ground.board().values() if place.runner_id == process.runner.runner_id]
        assert not left, f"{left} are held by a process that works on nothing"
        self.do(process.runner.__aexit__(None, None, None))
        self.processes.remove(process)

    @precondition(lambda self: "READY" in self.here())
    @rule(fate=st.sampled_from(Fate), later=st.booleans())
    def dispatch(self, fate: Fate, later: bool) -> None:
        self.work(DrainKind.DISPATCH, fate, Look.FRANK, later)

    @precondition(lambda self: self.here() & {"SUBMITTED", "OBSERVING"})
    @rule(look=st.sampled_from(Look), later=st.booleans())
    def observe(self, look: Look, later: bool) -> None:
        self.work(DrainKind.OBSERVE, Fate.ACCEPT, look, later)

    @precondition(lambda self: self.here() & {"SUBMITTING", "UNKNOWN"})
    @rule(look=st.sampled_from(Look), later=st.booleans())
    def recover(self, look: Look, later: bool) -> None:
        self.work(DrainKind.RECOVER, Fate.ACCEPT, look, later)

    def work(self, kind: DrainKind, fate: Fate, look: Look, later: bool) -> None:
        """A process makes one pass and ends, undisturbed."""
        if later:
            self._pass_time(LATER)
        self.world.fate, self.world.look = fate, look
        self._begin(kind, opened=True)
        self.world.fate, self.world.look = Fate.ACCEPT, Look.FRANK

    @precondition(lambda self: len(self.processes) < 3 and self.here() & {"READY", *UNSETTLED})
    @rule(kind=st.sampled_from(DrainKind), steps=st.integers(0, 5))
    def begin(self, kind: DrainKind, steps: int) -> None:
        """A process begins a pass, and comes to some step of it."""
        process = self._begin(kind, opened=False)
        for _ in range(steps):
            if process.gate.waiting:
                process.gate.let_go(process.gate.waiting[0])
                self._settle()

    @precondition(lambda self: any(process.gate.waiting for process in self.processes))
    @rule(
        which=st.integers(0, 8),
        fate=st.sampled_from(Fate),
        look=st.sampled_from(Look),
        loss=st.sampled_from([None, None, None, Loss.BEFORE, Loss.AFTER]),
    )
    def step(self, which: int, fate: Fate, look: Look, loss: Loss | None) -> None:
        """One step of one process."""
        choices: list[tuple[Process, Waiting]] = [(p, waiting) for p in self.processes for waiting in p.gate.waiting]
        process, waiting = choices[which % len(choices)]
        told: Any = loss
        match waiting.point:
            case Point.SUBMIT:
                told = fate
            case Point.LOOK:
                told = look
            case Point.CLAIMED | Point.ANSWER:
                told = None
        process.gate.let_go(waiting, told)
        self._settle()

    @precondition(lambda self: self.processes)
    @rule(which=st.integers(0, 2), cut_first=st.booleans())
    def let_go(self, which: int, cut_first: bool) -> None:
        """A process finishes what it began; its session may have been lost meanwhile."""
        process = self.processes[which % len(self.processes)]
        if cut_first:
            self.ground.cut(process.runner)
        process.gate.open()
        self._settle()

    @precondition(lambda self: self.processes)
    @rule(which=st.integers(0, 2))
    def lose_session(self, which: int) -> None:
        """A process is cut off from its lock and does not know; others may take its nodes over."""
        process = self.processes[which % len(self.processes)]
        self.ground.cut(process.runner)

    @precondition(lambda self: self.here() & {"READY", *UNSETTLED})
    @rule(
        kind=st.sampled_from(DrainKind),
        fate=st.sampled_from(Fate),
        stale=st.sampled_from(Look),
        fresh=st.sampled_from(Look),
    )
    def be_overtaken(self, kind: DrainKind, fate: Fate, stale: Look, fresh: Look) -> None:
        """A process loses its session while an answer is on its way; others take over before the answer comes."""
        self._pass_time(LATER)
        process = self._begin(kind, opened=False)
        while process in self.processes and (
            before := [w for w in process.gate.waiting if w.point is not Point.ANSWER]
        ):
            told = {Point.SUBMIT: fate, Point.LOOK: stale}.get(before[0].point)
            process.gate.let_go(before[0], told)
            self._settle()
        if process not in self.processes:
            return
        self.ground.cut(process.runner)
        for other in DrainKind:
            self.work(other, Fate.ACCEPT, fresh, later=False)
        process.gate.open()
        self._settle()

    @precondition(lambda self: self.here() & {"READY", *UNSETTLED})
    @rule(
        kind=st.sampled_from(DrainKind),
        at=st.sampled_from([Point.CLAIM, Point.INTENT, Point.RECORD]),
        loss=st.sampled_from(Loss),
        again=st.booleans(),
    )
    def lose_the_store(self, kind: DrainKind, at: Point, loss: Loss, again: bool) -> None:
        """A process cannot reach the store at one step of its pass, or never again from there on."""
        self._pass_time(LATER)
        process = self._begin(kind, opened=False)
        lost = False
        while process in self.processes and process.gate.waiting:
            step = process.gate.waiting[0]
            losing = step.point is at and (again or not lost)
            lost = lost or losing
            process.gate.let_go(step, loss if losing else None)
            self._settle()

    @precondition(lambda self: self.processes)
    @rule(which=st.integers(0, 2))
    def die(self, which: int) -> None:
        """A process is killed where it stands."""
        self.kill(self.processes[which % len(self.processes)])

    def kill(self, process: Process) -> None:
        process.gate.dead = True
        self.ground.cut(process.runner)
        writing = [process.passing, process.engine.intents._writing, process.engine.outcomes._writing]
        tasks = [*process.drain._tasks, *(task for task in writing if task)]

        async def bury() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await process.runner.__aexit__(None, None, None)

        self.do(bury())
        self.processes.remove(process)

    @precondition(lambda self: self.going)
    @rule(seconds=st.sampled_from([1.0, 30.0, LATER]))
    def time_passes(self, seconds: float) -> None:
        self._pass_time(seconds)

    def _pass_time(self, seconds: float) -> None:
        self.elapsed += seconds
        self.ground.advance(seconds)

    # -- people

    def _decide(self, movement: Movement, may: bool, deed: Coroutine[Any, Any, object]) -> None:
        """A person does something: exactly what the reference allows has an effect."""
        before, refusal = self._rows(movement), None
        try:
            self.do(deed)
        except (Conflict, ApprovalExpired) as refused:
            refusal = refused
        assert may is (refusal is None), f"{movement.state} with {movement.node_states()}: {refusal or 'allowed'}"
        assert refusal is None or self._rows(movement) == before, "a refused decision changed something"

    def _rows(self, movement: Movement) -> tuple[str, list[Row]]:
        return self.ground.request_state(movement.request_id), self.ground.nodes(movement.request_id)

    def _any(self, which: int) -> Movement:
        return self.movements[-1 - which % min(3, len(self.movements))]

    @precondition(lambda self: self.movements)
    @rule(which=st.integers(0, 2))
    def approve(self, which: int) -> None:
        movement = self._any(which)
        may = movement.state == "PENDING_APPROVAL" and self.elapsed - movement.ordered_at < APPROVAL_SECONDS
        self._decide(movement, may, approve_movement(self.people, movement.request_id, actor="grace"))
        movement.approved = True if may else movement.approved

    @precondition(lambda self: any(movement.state == "PENDING_APPROVAL" for movement in self.movements))
    @rule(later=st.booleans())
    def expire(self, later: bool) -> None:
        """The sweeper comes by: what waited for too long is called off, and nothing else is touched."""
        if later:
            self._pass_time(APPROVAL_SECONDS)
        before = {movement.request_id: self._rows(movement) for movement in self.movements}
        due = [
            movement
            for movement in self.movements
            if movement.state == "PENDING_APPROVAL" and self.elapsed - movement.ordered_at >= APPROVAL_SECONDS
        ]
        assert self.do(expire_pending_requests(self.people)) == len(due)
        for movement in self.movements:
            if movement in due:
                movement.state, movement.rows = self._rows(movement)
                assert movement.state == "EXPIRED"
                assert set(movement.node_states().values()) == {"CANCELLED"}
            else:
                assert self._rows(movement) == before[movement.request_id], "the sweeper touched another movement"

    @precondition(lambda self: self.here() & {"COMPLETED", "FAILED", *UNSETTLED})
    @rule(which=st.integers(0, 2))
    def cancel(self, which: int) -> None:
        movement = self._any(which)
        may = movement.state not in ENDED and not set(movement.node_states().values()) & UNSETTLED
        self._decide(movement, may, cancel_movement(self.people, movement.request_id, actor="heidi", reason="stop"))

    @precondition(lambda self: self.movements)
    @rule(which=st.integers(0, 2))
    def resume(self, which: int) -> None:
        movement = self._any(which)
        states = set(movement.node_states().values())
        may = movement.state == "MANUAL_INTERVENTION" and ("FAILED" not in states or bool(states & UNSETTLED))
        self._decide(movement, may, resume_movement(self.people, movement.request_id, actor="heidi", reason="seen"))

    @precondition(lambda self: self.movements)
    @rule(which=st.integers(0, 2), node=st.integers(0, 4), deed=st.sampled_from([retry_node, skip_node]))
    def about_a_node(self, which: int, node: int, deed: Callable[..., Coroutine[Any, Any, None]]) -> None:
        movement = self._any(which)
        row = movement.rows[node % len(movement.rows)]
        key, state = row["node_key"], row["node_state"]
        may = state == "FAILED" if deed is retry_node else key.startswith("manual_") and state in ("READY", "BLOCKED")
        may = may and movement.state not in (*ENDED, "PENDING_APPROVAL")
        self._decide(movement, may, deed(self.people, movement.request_id, key, actor="heidi", reason="so decided"))

    @precondition(lambda self: any(key.startswith("manual_") for m in self.movements for key in m.node_states()))
    @rule(which=st.integers(0, 2))
    def do_a_manual_step(self, which: int) -> None:
        movement = self._any(which)
        for key, state in movement.node_states().items():
            if key.startswith("manual_"):
                may = state == "READY" and movement.state not in (*ENDED, "PENDING_APPROVAL")
                deed = complete_manual_node(self.people, movement.request_id, key, actor="heidi", note="done")
                self._decide(movement, may, deed)
                return

    @precondition(lambda self: self.here() & {"UNKNOWN", "FAILED"})
    @rule(which=st.integers(0, 2), node=st.integers(0, 4), its_own=st.booleans())
    def adopt(self, which: int, node: int, its_own: bool) -> None:
        """A person names what a node's attempt did, or what was done by hand in its place."""
        movement = self._any(which)
        row = movement.rows[node % len(movement.rows)]
        candidates = sorted(thing for thing in row["things"] if self.world.moved(thing)) if its_own else []
        if candidates:
            reference = candidates[0]
        else:
            self.hands += 1
            reference = f"by hand {self.hands}"
            self.world.by_hand[reference] = row["id"]
        self.world.book += [] if candidates else [reference]
        before = self._rows(movement)
        try:
            self.do(adopt(self.people, movement.request_id, row["node_key"], reference, actor="heidi", reason="found"))
        except Conflict:
            assert self._rows(movement) == before, "a refused adoption changed something"
            if not candidates:  # it was not done after all
                self.world.book.remove(reference)
        else:
            assert row["node_state"] in ("READY", "UNKNOWN", "FAILED")
            assert movement.state not in (*ENDED, "PENDING_APPROVAL")

    # -- what always holds

    @invariant()
    def belief_agrees_with_the_truth(self) -> None:
        submits = self.world.submits
        assert len(submits) == len(set(submits)), "an attempt was submitted twice"
        assert not self.problems, self.problems
        keyed: list[Row] = []
        for movement in self.movements:
            movement.state, movement.rows = self._rows(movement)
            check_nodes(movement.plan, self.world, movement.rows)
            check_journal(movement.rows)
            self._check_movement(movement)
            keyed += [row for row in movement.rows if row["in_flight_key"]]
        assert len(keyed) <= 1, f"{keyed} are in flight under one key"

    def _check_movement(self, movement: Movement) -> None:
        states = movement.node_states()
        assert movement.approved or not any(row["attempt_no"] for row in movement.rows), "begun without its approval"
        if movement.state == "FAILED":
            moved = [r["node_key"] for r in movement.rows if any(self.world.moved(thing) for thing in r["things"])]
            assert not movement.actions & set(moved), "the movement is FAILED, but its money moved"
        if movement.state == "COMPLETED":
            assert set(states.values()) <= {"COMPLETED", "SKIPPED"}
        if movement.ended:
            assert movement.state == movement.ended, f"{movement.ended} did not stay so"
        for key, state in movement.final_nodes.items():
            assert states[key] == state, f"{key} was {state}, and is {states[key]}"
        movement.final_nodes |= {key: state for key, state in states.items() if state in FINAL_NODES}
        movement.ended = movement.state if movement.state in ENDED else ""

    @invariant()
    def the_ledger_follows_the_money(self) -> None:
        for movement in self.movements[-3:]:
            self.do(self.ground.check_books(movement.request_id, movement.actions))

    def teardown(self) -> None:
        """With the faults off, every approved movement comes to its end, and all that moved is COMPLETED."""
        try:
            self._come_to_an_end()
        finally:
            for process in list(self.processes):
                self.kill(process)
            self.do(self.ground.close())
            self.loop.close()

    def _come_to_an_end(self) -> None:
        self.belief_agrees_with_the_truth()
        for process in list(self.processes):
            process.gate.open()
            self._settle()
        for _ in range(40):
            self.belief_agrees_with_the_truth()
            self.the_ledger_follows_the_money()
            going = [movement for movement in self.going if movement.approved]
            if not going:
                break
            for kind in DrainKind:
                self.work(kind, Fate.ACCEPT, Look.FRANK, later=True)
            for movement in going:
                self._help(movement)
        left = [(movement.state, movement.node_states()) for movement in self.going if movement.approved]
        assert not left, f"{left} did not come to an end"

    def _help(self, movement: Movement) -> None:
        movement.state, movement.rows = self._rows(movement)
        for key, state in movement.node_states().items():
            if state == "READY" and key.startswith("manual_") and movement.state not in ENDED:
                self.do(complete_manual_node(self.people, movement.request_id, key, actor="heidi", note="done"))
            elif state == "FAILED":
                self.do(retry_node(self.people, movement.request_id, key, actor="heidi", reason="again"))
        if self.ground.request_state(movement.request_id) == "MANUAL_INTERVENTION":
            self.do(resume_movement(self.people, movement.request_id, actor="heidi", reason="go on"))
