"""Random movements through random days: whatever dies or is lost, what is believed never contradicts what is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import psycopg
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.plans import Plan, PlanNode
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.interventions import resume_movement, retry_node
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.engine.requests import approve_movement, cancel_movement, complete_manual_node
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AccountEntry, AssetEntry, Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.ledger import LedgerReport, verify_ledger
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.runners import Runner
from tests.engine import plans
from tests.engine.model import Death, Fate, Look, TruthfulExecutor, World, check_journal, check_nodes
from tests.recycling import wipe

T = TypeVar("T")

NODES = text("""
    SELECT n.id::text AS id, n.node_key, n.node_state, n.state_version, e.to_state AS evidence_to,
           e.request_node_id::text AS evidence_of,
           ARRAY(SELECT a.idempotency_key FROM qtg.movement_node_attempts a WHERE a.request_node_id = n.id) AS keys,
           coalesce((SELECT jsonb_agg(jsonb_build_array(s.from_state, s.to_state) ORDER BY s.id)
            FROM qtg.movement_node_steps s
            WHERE s.request_node_id = n.id AND s.to_state IS NOT NULL), '[]'::jsonb) AS moves
    FROM qtg.movement_request_nodes n
    LEFT JOIN qtg.movement_node_steps e ON e.id = n.evidence_step_id
    WHERE n.request_id = CAST(:request_id AS uuid)
""")
KINDS: dict[str, Callable[[str], PlanNode]] = {
    "manual": plans.manual,
    "watch": plans.watch,
    "keyed": plans.node,
    "action": plans.node,
}


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    """Two to five nodes of any kind in any order of dependence."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=5))
    keys = [f"manual_{n}" if kind == "manual" else f"{kind}_{n}" for n, kind in enumerate(kinds)]
    nodes = []
    for key, kind in zip(keys, kinds, strict=True):
        made = KINDS[kind](key)
        nodes.append(made.model_copy(update={"executor_key": "exec.local.keyed"}) if kind == "keyed" else made)
    pairs = [(keys[i], keys[j]) for j in range(len(keys)) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return plans.plan_of(*nodes, edges=tuple(edges))


def with_money(plan: Plan) -> Plan:
    """The plan with every action moving 12.5 from the treasury's account."""
    terms = {"asset": "USDC", "amount": "12.5", "chain": "eip155:1", "account": "treasury", "destination": "0xallowed"}
    nodes = (node.model_copy(update={"config": terms}) if node.has_side_effect else node for node in plan.nodes)
    return plan.model_copy(update={"nodes": tuple(nodes)})


HELD = """
    SELECT split_part(account, ':', 1), sum(units) FROM (
        SELECT to_account AS account, base_units AS units, request_id FROM qtg.ledger_lines
        UNION ALL SELECT from_account, -base_units, request_id FROM qtg.ledger_lines) AS side
    WHERE request_id = %s AND account <> 'chain:eip155:1:0xallowed' GROUP BY 1
"""
ENDS = {"COMPLETED", "FAILED", "CANCELLED", "MANUAL_INTERVENTION"}
IN_FLIGHT = {"SUBMITTING", "SUBMITTED", "OBSERVING", "UNKNOWN"}
diamonds = st.just(plans.diamond())


class Days(RuleBasedStateMachine):
    """One movement after another, with one runner at a time."""

    empty_database: Callable[[], str]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        executors = ExecutorRegistry()
        for name, key in (("move", None), ("watch", None), ("keyed", "one-at-a-time")):
            executors.register(f"exec.local.{name}", TruthfulExecutor(self.world, key))
        self.url = type(self).empty_database()
        self.connection = psycopg.connect(self.url, autocommit=True)
        self.engine = Engine(
            PostgresStore(Database(self.url, pool_size=5)),
            Settings(database_url=self.url),
            Inventory.model_construct(
                assets={"USDC": AssetEntry(symbol="USDC", decimals=6)},
                accounts={"treasury": AccountEntry(chain="eip155:1", address="0x" + "11" * 20)},
            ),
            executors,
            SignerRegistry(),
        )
        self.runner = self.do(self._new_runner())
        self.request_id = ""
        self.approved = False
        self.over = True  # nothing more will happen to the movement by itself
        self.here: set[str] = set()  # states that some node is in

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def sql(self, statement: str, *bound: object) -> list[Any]:
        cursor = self.connection.execute(statement, bound or None)
        return cursor.fetchall() if cursor.description else []

    @precondition(lambda self: self.over)
    @rule(plan=any_plan() | diamonds, at_once=st.sampled_from([True, True, True, False]))
    def order(self, plan: Plan, at_once: bool) -> None:
        self.plan = plan = with_money(plan)
        self.request_id = self.do(plans.create(self.engine, plan))
        self.approved = False
        if at_once:
            self.approve()

    async def _new_runner(self) -> Runner:
        return await self.engine.store.runner(RunnerIdentity("dispatch", "sandbox")).__aenter__()

    @precondition(lambda self: not self.over and not self.approved)
    @rule()
    def approve(self) -> None:
        self.do(approve_movement(self.engine, self.request_id, actor="grace"))
        self.approved = True

    @precondition(lambda self: "READY" in self.here)
    @rule(fates=st.lists(st.sampled_from(Fate), min_size=1, max_size=4), batch=st.integers(1, 4))
    def dispatch(self, fates: list[Fate], batch: int) -> None:
        self.world.fates = list(fates)
        if Fate.DIE_AFTER in fates or Fate.DIE_BEFORE in fates:
            batch = 1
        self._pass(dispatch_ready_nodes(self.engine, self.runner, batch))
        self.world.fates = []

    @precondition(lambda self: self.here & {"SUBMITTED", "OBSERVING"})
    @rule(look=st.sampled_from(Look))
    def observe(self, look: Look) -> None:
        self.world.look = look
        self._pass(observe_active_nodes(self.engine, self.runner))

    @precondition(lambda self: self.here & {"SUBMITTING", "UNKNOWN"})
    @rule(look=st.sampled_from([Look.FRANK, Look.PENDING, Look.ERROR]))
    def recover(self, look: Look) -> None:
        self.world.look = look
        self._pass(recover_unknown_nodes(self.engine, self.runner))

    def _pass(self, work: Coroutine[Any, Any, int]) -> None:
        """One pass over all that waits; the process may die in it."""
        self.make_due()
        try:
            self.do(work)
        except Death:
            self.kill()

    @precondition(lambda self: self.here & IN_FLIGHT)
    @rule()
    def kill(self) -> None:
        """The process is gone, and another one starts."""
        self.cut()
        self.do(self.runner.__aexit__(None, None, None))
        self.runner = self.do(self._new_runner())

    def cut(self) -> None:
        self.sql(f"SELECT pg_terminate_backend({self.runner.connection.info.backend_pid}, 5000)")

    def make_due(self) -> None:
        self.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL WHERE next_look_at IS NOT NULL")

    @precondition(lambda self: self.here & {"READY", *IN_FLIGHT})
    @rule(
        task=st.sampled_from(["dispatch", "observe", "recover"]),
        fate=st.sampled_from([fate for fate in Fate if fate not in (Fate.DIE_AFTER, Fate.DIE_BEFORE)]),
        stale=st.sampled_from(Look),
        fresh=st.sampled_from(Look),
    )
    def be_overtaken(self, task: str, fate: Fate, stale: Look, fresh: Look) -> None:
        """A process loses its session while an answer is on its way; another takes over; the late answer is nothing."""
        overtaken: list[tuple[bool, list[Any]]] = []

        async def another_takes_over(node_id: str) -> None:
            before = self.epoch(node_id)
            self.cut()
            await self.runner.__aexit__(None, None, None)
            self.runner = await self._new_runner()
            self.world.look, self.world.fates = fresh, []
            for look_at in (observe_active_nodes, recover_unknown_nodes):
                self.make_due()
                await look_at(self.engine, self.runner)
            overtaken.append((self.epoch(node_id) != before, self.standing()))

        self.world.look, self.world.fates, self.world.meanwhile = stale, [fate], another_takes_over
        self.make_due()
        match task:
            case "dispatch":
                self.do(dispatch_ready_nodes(self.engine, self.runner, 1))
            case "observe":
                self.do(observe_active_nodes(self.engine, self.runner, 1))
            case "recover":
                self.do(recover_unknown_nodes(self.engine, self.runner, 4))
        self.world.fates, self.world.meanwhile = [], None
        for taken_over, standing in overtaken:
            assert not taken_over or self.standing() == standing, "a late write changed a node that another had taken"

    def epoch(self, node_id: str) -> int:
        [(epoch,)] = self.sql("SELECT claim_epoch FROM qtg.movement_request_nodes WHERE id = %s", node_id)
        return int(epoch)

    def standing(self) -> list[Any]:
        return self.sql(
            "SELECT node_key, node_state, state_version, looks, error_code, provider_refs::text, next_look_at "
            "FROM qtg.movement_request_nodes WHERE request_id = %s ORDER BY node_key",
            self.request_id,
        )

    @precondition(lambda self: "FAILED" in self.here)
    @rule()
    def retry(self) -> None:
        """A person has what provably did not happen done again."""
        standing = self.states()
        for key, state in standing:
            if state == "FAILED":
                try:
                    self.do(retry_node(self.engine, self.request_id, key, actor="heidi", reason="again"))
                except Conflict:
                    assert self.request_state() == "CANCELLED"

    @precondition(lambda self: self.here & {*IN_FLIGHT, "COMPLETED", "FAILED"})
    @rule()
    def cancel(self) -> None:
        standing = self.states()
        try:
            self.do(cancel_movement(self.engine, self.request_id, actor="heidi", reason="stop"))
        except Conflict:
            assert self.states() == standing

    @precondition(lambda self: "READY" in self.here)
    @rule()
    def do_a_manual_step(self) -> None:
        ready = (
            "SELECT node_key FROM qtg.movement_request_nodes "
            "WHERE request_id = %s AND node_kind = 'manual' AND node_state = 'READY' LIMIT 1"
        )
        for (key,) in self.sql(ready, self.request_id):
            self.do(complete_manual_node(self.engine, self.request_id, key, actor="heidi", note="done"))

    @precondition(lambda self: self.here & IN_FLIGHT)
    @rule()
    def resume(self) -> None:
        """A person lets a movement go on that still has something to find out."""
        if self.request_state() == "MANUAL_INTERVENTION":
            try:
                self.do(resume_movement(self.engine, self.request_id, actor="heidi", reason="looked at it"))
            except Conflict:
                states = {state for _, state in self.states()}
                assert "FAILED" in states
                assert not states & IN_FLIGHT

    def states(self) -> list[Any]:
        mine = "SELECT node_key, node_state FROM qtg.movement_request_nodes WHERE request_id = %s ORDER BY node_key"
        return self.sql(mine, self.request_id)

    def request_state(self) -> str:
        [(state,)] = self.sql("SELECT request_state FROM qtg.movement_requests WHERE id = %s", self.request_id)
        return str(state)

    @invariant()
    def belief_agrees_with_the_truth(self) -> None:
        if not self.request_id:
            return
        rows, state = self.do(self._nodes()), self.request_state()
        self.here = {row["node_state"] for row in rows}
        self.over = state in ENDS and not self.here & IN_FLIGHT
        check_nodes(self.plan, self.world, rows)
        check_journal(rows)
        assert len(self.world.submits) == len(set(self.world.submits)), "an attempt was submitted twice"
        mine = {key for row in rows for key in row["keys"]}
        assert self.approved or not mine, "a movement began without its approval"
        if state == "FAILED":
            actions = {node.node_key for node in self.plan.nodes if node.has_side_effect}
            moved = [row["node_key"] for row in rows if any(self.world.moved(key) for key in row["keys"])]
            assert not actions & set(moved), "the movement is FAILED, but its money moved"
        if state == "COMPLETED":
            assert self.here == {"COMPLETED"}

    @invariant()
    def the_ledger_follows_the_money(self) -> None:
        """What left the account is what is done and what may be; only the latter is in transit."""
        if not self.request_id:
            return
        actions = {node.node_key for node in self.plan.nodes if node.has_side_effect}
        states = [state for key, state in self.states() if key in actions]
        open_ones = sum(state in IN_FLIGHT for state in states)
        gone = open_ones + states.count("COMPLETED")
        held = {account: int(units) for account, units in self.sql(HELD, self.request_id)}
        assert held.get("transit", 0) == open_ones * 12_500_000, f"{held} with nodes {states}"
        assert held.get("chain", 0) == -gone * 12_500_000, f"{held} with nodes {states}"
        report = self.do(self._verified())
        assert report.right, report.findings
        assert not [one for one in report.findings if one.check == "not in the ledger"]

    async def _verified(self) -> LedgerReport:
        async with self.engine.database.transaction() as transaction:
            return await verify_ledger(transaction, "sandbox")

    async def _nodes(self) -> list[dict[str, Any]]:
        async with self.engine.database.transaction() as transaction:
            found = await transaction.execute(NODES, {"request_id": self.request_id})
            return [dict(row) for row in found.mappings()]

    def teardown(self) -> None:
        """With the faults off, the movement comes to an end, or waits for a named person."""
        for _ in range(30):
            self.belief_agrees_with_the_truth()
            if self.over or not self.approved:
                break
            self.dispatch([], 4)
            self.observe(Look.FRANK)
            self.recover(Look.FRANK)
            self.resume()
            self.do_a_manual_step()
        assert self.over or not self.approved, f"{self.states()} in a movement that is {self.request_state()}"
        self.do(self.runner.__aexit__(None, None, None))
        self.connection.close()
        self.do(self.engine.database.close())
        self.loop.close()


def test_belief_never_contradicts_the_truth(database_url: str) -> None:
    def empty_database() -> str:
        wipe(database_url)
        return database_url

    machine = type("Days", (Days,), {"empty_database": staticmethod(empty_database)})
    small = settings(
        max_examples=15,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    run_state_machine_as_test(machine, settings=small)
