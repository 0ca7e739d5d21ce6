"""Plans that the tests move through the engine, and the way from a plan to an approved movement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from qtg_dagster.domain.plans import NodeKind, ParameterSpec, ParameterType, Plan, PlanEdge, PlanNode, RiskControls
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template

AMOUNT = ParameterSpec(name="amount", type=ParameterType.AMOUNT, asset="USDC")
LIMITS = RiskControls(hard_cap="1000", destination_allowlist=("0xallowed",))


def node(
    key: str, kind: NodeKind = NodeKind.ACTION, executor: str | None = "exec.local.move", **rest: object
) -> PlanNode:
    """A node of a scripted executor."""
    return PlanNode.model_validate(
        {"node_key": key, "node_kind": kind, "action_type": "move", "executor_key": executor, **rest}
    )


def watch(key: str, **rest: object) -> PlanNode:
    """A node without a side effect."""
    return node(key, NodeKind.OBSERVE, "exec.local.watch", **rest)


def manual(key: str, **rest: object) -> PlanNode:
    """A node that a person does."""
    return node(key, NodeKind.MANUAL, None, **rest)


def plan_of(*nodes: PlanNode, edges: tuple[tuple[str, str], ...] = (), key: str = "sample", **rest: object) -> Plan:
    """A template of these nodes; edges are (before, after)."""
    return Plan.model_validate(
        {
            "template_key": key,
            "title": key,
            "parameters": (AMOUNT,),
            "risk_controls": LIMITS,
            "nodes": nodes,
            "edges": tuple(PlanEdge(from_node=before, to_node=after) for before, after in edges),
            **rest,
        }
    )


def chain() -> Plan:
    """first -> watch -> last, with an amount parameter and a destination under control."""
    return plan_of(
        node("first", config={"asset": "USDC", "amount": "$param:amount", "destination": "0xallowed"}),
        watch("watch", config={"reference": "$ref:first.reference"}),
        node("last", config={"asset": "USDC", "amount": "$param:amount"}),
        edges=(("first", "watch"), ("watch", "last")),
        key="chain",
    )


def diamond() -> Plan:
    """top -> left and right -> bottom."""
    return plan_of(
        node("top"),
        node("left"),
        node("right"),
        node("bottom"),
        edges=(("top", "left"), ("top", "right"), ("left", "bottom"), ("right", "bottom")),
        key="diamond",
    )


def order_of(plan: Plan, **values: object) -> MovementOrder:
    """An order that every sample template accepts."""
    return MovementOrder.read(
        {"template_key": plan.template_key, "parameters": {"amount": "12.5"}, "requested_by": "ada", **values}
    )


async def create(engine: Engine, plan: Plan, **values: object) -> str:
    """Publish the plan and order a movement of it; it waits for approval."""
    await publish_template(engine, plan)
    return (await create_movement(engine, order_of(plan, **values))).request_id


async def begin(engine: Engine, plan: Plan, **values: object) -> str:
    """A movement that somebody else has approved."""
    request_id = await create(engine, plan, **values)
    await approve_movement(engine, request_id, actor="grace")
    return request_id


async def until(condition: Callable[[], Awaitable[bool]], what: str, *, seconds: float = 20) -> None:
    """Return as soon as the condition holds; fail when it does not in time."""
    for _ in range(int(seconds / 0.01)):
        if await condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not in {seconds} s: {what}")
