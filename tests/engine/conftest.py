"""An engine on a fresh database, with a scripted provider behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from qtg_dagster.domain.plans import NodeKind, ParameterSpec, ParameterType, Plan, PlanEdge, PlanNode, RiskControls
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AssetEntry, Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import Runner, RunnerIdentity
from tests.engine.provider import ScriptedExecutor, ScriptedProvider


@pytest.fixture
def provider() -> ScriptedProvider:
    """The remote side: a book of what was executed, and a script of what it answers."""
    return ScriptedProvider()


@pytest.fixture
async def engine(database_url: str, provider: ScriptedProvider) -> AsyncIterator[Engine]:
    database = Database(database_url, pool_size=5)
    executors = ExecutorRegistry()
    executors.register("exec.local.move", ScriptedExecutor(provider))
    executors.register("exec.local.keyed", ScriptedExecutor(provider, key="one-at-a-time"))
    executors.register("exec.local.watch", ScriptedExecutor(provider))
    settings = Settings(database_url=database_url, drain_poll_seconds=0.2, drain_linger_seconds=0.3)
    inventory = Inventory(assets={"USDC": AssetEntry(symbol="USDC", decimals=6)})
    yield Engine(database, settings, inventory, executors, SignerRegistry())
    await database.close()


@pytest.fixture
async def runner(engine: Engine) -> AsyncIterator[Runner]:
    async with Runner(engine.database, RunnerIdentity("dispatch", engine.settings.network_class)) as runner:
        yield runner


@pytest.fixture
def rows(engine: Engine) -> Callable[..., Awaitable[list[dict[str, object]]]]:
    """Read rows by plain SQL, to judge the engine by what is stored."""
    from sqlalchemy import text

    async def read(sql: str, **bound: object) -> list[dict[str, object]]:
        async with engine.database.transaction() as transaction:
            return [dict(row) for row in (await transaction.execute(text(sql), bound)).mappings()]

    return read


def node(key: str, kind: NodeKind = NodeKind.ACTION, executor: str | None = "exec.local.move", **rest: object) -> PlanNode:
    return PlanNode.model_validate(
        {"node_key": key, "node_kind": kind, "action_type": "move", "executor_key": executor, **rest}
    )


@pytest.fixture
def chain_plan() -> Plan:
    """move -> watch -> move_on, with an amount parameter and a destination under control."""
    return Plan(
        template_key="chain",
        title="Three steps in a row",
        parameters=(ParameterSpec(name="amount", type=ParameterType.AMOUNT, asset="USDC"),),
        risk_controls=RiskControls(hard_cap="1000", destination_allowlist=("0xallowed",)),
        nodes=(
            node("first", config={"asset": "USDC", "amount": "$param:amount", "destination": "0xallowed"}),
            node("watch", NodeKind.OBSERVE, "exec.local.watch", config={"reference": "$ref:first.reference"}),
            node("last", config={"asset": "USDC", "amount": "$param:amount"}),
        ),
        edges=(PlanEdge(from_node="first", to_node="watch"), PlanEdge(from_node="watch", to_node="last")),
    )
