"""What the model's days are made of: plans, processes, and what the reference remembers of movements."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import strategies as st

from qtg_dagster.domain.plans import Plan, PlanNode, TimeoutPolicy
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner
from tests.engine import plans
from tests.engine.gates import Gate
from tests.engine.grounds import Row

KINDS = {"manual": "manual_{}", "watch": "watch_{}", "keyed": "keyed_{}", "action": "action_{}"}
TERMS = {"asset": "USDC", "amount": "12.5", "chain": "eip155:1", "account": "treasury", "destination": "0xallowed"}


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    """Two to five nodes of any kind in any order of dependence."""
    kinds = draw(st.lists(st.sampled_from(["keyed", *sorted(KINDS)]), min_size=2, max_size=5))
    keys = [KINDS[kind].format(n) for n, kind in enumerate(kinds)]
    nodes = [_node(kind, key, draw) for kind, key in zip(kinds, keys, strict=True)]
    pairs = [(keys[i], keys[j]) for j in range(len(keys)) for i in range(j)]
    return plans.plan_of(*nodes, edges=tuple(draw(st.lists(st.sampled_from(pairs), unique=True))))


def _node(kind: str, key: str, draw: st.DrawFn) -> PlanNode:
    match kind:
        case "manual":
            return plans.manual(key)
        case "watch":
            return plans.watch(key, timeout_policy=TimeoutPolicy(observe_seconds=draw(st.sampled_from([None, 1000]))))
        case "keyed":
            return plans.node(key, executor="exec.local.keyed", config=TERMS)
        case _:
            return plans.node(key, config=TERMS)


@dataclass
class Process:
    """A drain of one kind, whose passes a test starts and whose steps it lets go one by one."""

    kind: DrainKind
    drain: Drain
    engine: Engine
    runner: Runner
    gate: Gate
    passing: asyncio.Task[int] | None = None

    @property
    def works(self) -> bool:
        return bool(self.drain._tasks) or (self.passing is not None and not self.passing.done())


@dataclass
class Movement:
    """What the reference model remembers of a movement."""

    request_id: str
    plan: Plan
    ordered_at: float = 0.0
    approved: bool = False
    ended: str = ""
    final_nodes: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    state: str = "PENDING_APPROVAL"

    @property
    def actions(self) -> set[str]:
        return {node.node_key for node in self.plan.nodes if node.has_side_effect}

    def node_states(self) -> dict[str, str]:
        return {row["node_key"]: row["node_state"] for row in self.rows}
