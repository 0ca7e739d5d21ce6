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
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.plans import Plan
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.engine.requests import approve_movement, cancel_movement, complete_manual_node
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AssetEntry, Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import Runner, RunnerIdentity
from tests.engine import plans
from tests.engine.model import Death, Fate, Look, TruthfulExecutor, World, check_journal, check_nodes

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
""")
KINDS = {"manual": plans.manual, "watch": plans.watch, "keyed": plans.node, "action": plans.node}


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    """Up to five nodes of any kind in any order of dependence."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5))
    keys = [f"manual_{n}" if kind == "manual" else f"{kind}_{n}" for n, kind in enumerate(kinds)]
    nodes = []
    for key, kind in zip(keys, kinds, strict=True):
        made = KINDS[kind](key)
        nodes.append(made.model_copy(update={"executor_key": "exec.local.keyed"}) if kind == "keyed" else made)
    pairs = [(keys[i], keys[j]) for j in range(len(keys)) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return plans.plan_of(*nodes, edges=tuple(edges))


diamonds = st.just(plans.diamond())


class Days(RuleBasedStateMachine):
    """One movement, one database, one runner at a time."""

    new_database: Callable[[], str]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        executors = ExecutorRegistry()
        for name, key in (("move", None), ("watch", None), ("keyed", "one-at-a-time")):
            executors.register(f"exec.local.{name}", TruthfulExecutor(self.world, key))
        self.url = type(self).new_database()
        self.engine = Engine(
            Database(self.url, pool_size=5),
            Settings(database_url=self.url),
            Inventory(assets={"USDC": AssetEntry(symbol="USDC", decimals=6)}),
            executors,
            SignerRegistry(),
        )
        self.approved = False

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def sql(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    @initialize(plan=any_plan() | diamonds, at_once=st.sampled_from([True, True, True, False]))
    def order(self, plan: Plan, at_once: bool) -> None:
        self.plan = plan
        self.request_id = self.do(plans.create(self.engine, plan))
        self.runner = self.do(self._new_runner())
        if at_once:
            self.approve()

    async def _new_runner(self) -> Runner:
        return await Runner(self.engine.database, RunnerIdentity("dispatch", "sandbox")).__aenter__()

    @precondition(lambda self: not self.approved and self.request_state() == "PENDING_APPROVAL")
    @rule()
    def approve(self) -> None:
        self.do(approve_movement(self.engine, self.request_id, actor="grace"))
        self.approved = True

    @rule(fates=st.lists(st.sampled_from(Fate), min_size=1, max_size=4), batch=st.integers(1, 4))
    def dispatch(self, fates: list[Fate], batch: int) -> None:
        self.world.fates = list(fates)
        if Fate.DIE_AFTER in fates or Fate.DIE_BEFORE in fates:
            batch = 1
        self._pass(dispatch_ready_nodes(self.engine, self.runner, batch))
        self.world.fates = []

    @rule(look=st.sampled_from(Look))
    def observe(self, look: Look) -> None:
        self.world.look = look
        self._pass(observe_active_nodes(self.engine, self.runner))

    @rule(look=st.sampled_from([Look.FRANK, Look.PENDING, Look.ERROR]))
    def recover(self, look: Look) -> None:
        self.world.look = look
        self._pass(recover_unknown_nodes(self.engine, self.runner))

    def _pass(self, work: Coroutine[Any, Any, int]) -> None:
        """One pass over all that waits; the process may die in it."""
        self.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL WHERE next_look_at IS NOT NULL")
        try:
            self.do(work)
        except Death:
            self.kill()

    @rule()
    def kill(self) -> None:
        """The process is gone, and another one starts."""
        self.sql(f"SELECT pg_terminate_backend({self.runner.connection.info.backend_pid}, 5000)")
        self.do(self.runner.__aexit__(None, None, None))
        self.runner = self.do(self._new_runner())

    @rule()
    def cancel(self) -> None:
        standing = self.states()
        try:
            self.do(cancel_movement(self.engine, self.request_id, actor="heidi", reason="stop"))
        except Conflict:
            assert self.states() == standing

    @rule()
    def do_a_manual_step(self) -> None:
        for (key,) in self.sql("SELECT node_key FROM qtg.movement_request_nodes "
                               "WHERE node_kind = 'manual' AND node_state = 'READY' LIMIT 1"):  # fmt: skip
            self.do(complete_manual_node(self.engine, self.request_id, key, actor="heidi", note="done"))

    @rule()
    def resume(self) -> None:
        """A person lets a movement go on that still has something to find out."""
        self.sql(
            "UPDATE qtg.movement_requests SET request_state = 'EXECUTING' "
            "WHERE request_state = 'MANUAL_INTERVENTION' AND EXISTS (SELECT 1 FROM qtg.movement_request_nodes "
            "WHERE node_state IN ('SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN'))"
        )

    def states(self) -> list[Any]:
        return self.sql("SELECT node_key, node_state FROM qtg.movement_request_nodes ORDER BY node_key")

    def request_state(self) -> str:
        [(state,)] = self.sql("SELECT request_state FROM qtg.movement_requests")
        return str(state)

    @invariant()
    def belief_agrees_with_the_truth(self) -> None:
        if not hasattr(self, "request_id"):
            return
        rows = self.do(self._nodes())
        check_nodes(self.plan, self.world, rows)
        check_journal(rows)
        assert len(self.world.submits) == len(set(self.world.submits)), "an attempt was submitted twice"
        if not self.approved:
            assert self.world.submits == []
        if self.request_state() == "FAILED":
            actions = {node.node_key for node in self.plan.nodes if node.has_side_effect}
            moved = [row["node_key"] for row in rows if any(self.world.moved(key) for key in row["keys"])]
            assert not actions & set(moved), "the movement is FAILED, but its money moved"
        if self.request_state() == "COMPLETED":
            assert {row["node_state"] for row in rows} == {"COMPLETED"}

    async def _nodes(self) -> list[dict[str, Any]]:
        async with self.engine.database.transaction() as transaction:
            return [dict(row) for row in (await transaction.execute(NODES)).mappings()]

    def teardown(self) -> None:
        """With the faults off, the movement comes to an end that needs nobody, or waits for a named person."""
        if hasattr(self, "request_id"):
            for _ in range(4 * len(self.plan.nodes) + 4):
                self.dispatch([], 4)
                self.observe(Look.FRANK)
                self.recover(Look.FRANK)
                self.resume()
                self.do_a_manual_step()
            self.belief_agrees_with_the_truth()
            ends = {"COMPLETED", "FAILED", "CANCELLED", "MANUAL_INTERVENTION"}
            assert self.request_state() in (ends if self.approved else {"PENDING_APPROVAL", "CANCELLED"})
            unsettled = {"SUBMITTING", "SUBMITTED", "OBSERVING", "UNKNOWN"}
            if self.request_state() in ends - {"FAILED"}:
                assert not unsettled & {state for _, state in self.states()}
            self.do(self.runner.__aexit__(None, None, None))
        self.do(self.engine.database.close())
        self.loop.close()


def test_belief_never_contradicts_the_truth(new_database: Callable[..., str], migrated_template: str) -> None:
    machine = type("Days", (Days,), {"new_database": staticmethod(lambda: new_database(migrated_template))})
    small = settings(
        max_examples=15,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    run_state_machine_as_test(machine, settings=small)
