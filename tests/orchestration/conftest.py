"""QTG's definitions on a fresh database, with a Dagster instance of the test's own."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import pytest
from sqlalchemy import text

from qtg_dagster.composition import Platform
from qtg_dagster.domain.plans import NodeKind, Plan, PlanEdge, PlanNode
from resources import ResourceSet
from resources.lookout import lookout_for

T = TypeVar("T")


@pytest.fixture
def location(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tests' code location, loaded under an environment of its own."""
    settings = {
        "DATABASE_URL": database_url,
        "QTG_HOME": str(tmp_path / "home"),
        "MG_DRAIN_POLL_SECONDS": "0.1",
        "MG_DRAIN_LINGER_SECONDS": "0.3",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    yield importlib.reload(importlib.import_module("tests.orchestration.location"))
    lookout_for(database_url).close()
    lookout_for.cache_clear()


@pytest.fixture
def defs(location: Any) -> dg.Definitions:
    return location.defs


@pytest.fixture
def resources(location: Any) -> ResourceSet:
    return location.resources


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ask(resources: ResourceSet) -> Callable[[Callable[[Platform], Awaitable[T]]], T]:
    """Run something async on a platform of its own, from a test without an event loop."""

    def run(question: Callable[[Platform], Awaitable[T]]) -> T:
        async def answer() -> T:
            async with resources.platform.open() as platform:
                return await question(platform)

        return asyncio.run(answer())

    return run


@pytest.fixture
def rows(ask: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """Read rows by plain SQL, to judge by what is stored."""

    def read(sql: str, **bound: Any) -> list[dict[str, Any]]:
        async def query(platform: Platform) -> list[dict[str, Any]]:
            async with platform.database.transaction() as transaction:
                return [dict(row) for row in (await transaction.execute(text(sql), bound)).mappings()]

        return ask(query)

    return read


@pytest.fixture
def launch(defs: dg.Definitions, instance: dg.DagsterInstance) -> Callable[..., dg.ExecuteInProcessResult]:
    """Run a job with its one op's config, as the launchpad would."""

    def run(job: str, op: str | None = None, **config: Any) -> dg.ExecuteInProcessResult:
        return defs.resolve_job_def(job).execute_in_process(
            instance=instance,
            run_config={"ops": {op: {"config": config}}} if op else {},
            raise_on_error=False,
        )

    return run


@pytest.fixture
def metadata() -> Callable[[dg.ExecuteInProcessResult], dict[str, Any]]:
    """What the run's one op shows on its page."""

    def of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
        outputs = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
        return {name: value.value for name, value in outputs[-1].step_output_data.metadata.items()}

    return of


@pytest.fixture
def failure() -> Callable[[dg.ExecuteInProcessResult], Any]:
    """The failure that the run's page shows: description and metadata."""

    def of(result: dg.ExecuteInProcessResult) -> Any:
        [event] = [event for event in result.all_events if event.is_step_failure]
        return event.step_failure_data.user_failure_data

    return of


@pytest.fixture
def plan() -> Plan:
    """move -> watch."""
    return Plan(
        template_key="two_steps",
        title="Two steps",
        nodes=(
            PlanNode(node_key="move", node_kind=NodeKind.ACTION, action_type="move", executor_key="exec.local.move"),
            PlanNode(
                node_key="watch",
                node_kind=NodeKind.OBSERVE,
                action_type="watch",
                executor_key="exec.local.watch",
                config={"reference": "$ref:move.reference"},
            ),
        ),
        edges=(PlanEdge(from_node="move", to_node="watch"),),
    )


@pytest.fixture
def approve(ask: Callable[..., str], plan: Plan) -> Callable[[], str]:
    """Create and approve a movement of the plan, whose first node is READY then; returns its id."""
    from qtg_dagster.engine.orders import MovementOrder
    from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template

    async def begin(platform: Platform) -> str:
        await publish_template(platform.engine, plan)
        order = MovementOrder(template_key=plan.template_key, requested_by="ada")
        receipt = await create_movement(platform.engine, order)
        await approve_movement(platform.engine, receipt.request_id, actor="grace")
        return receipt.request_id

    return lambda: ask(begin)


@pytest.fixture
def approved(approve: Callable[[], str]) -> str:
    """Id of an approved movement of the plan, whose first node is READY."""
    return approve()


@pytest.fixture
def tick(defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance) -> Callable[..., dg.SensorResult]:
    """Evaluate a sensor once."""

    def evaluate(name: str, cursor: str | None = None) -> dg.SensorResult:
        given = {"settings": resources.settings, "database": resources.database}
        with dg.build_sensor_context(instance=instance, resources=given, cursor=cursor) as context:
            result = defs.resolve_sensor_def(name)(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


@pytest.fixture
def report(tick: Callable[..., dg.SensorResult]) -> Callable[..., tuple[list[str], dict[str, bool], str | None]]:
    """Tick the sensor; gives the materialized request ids, the check outcomes and the next cursor."""

    def once(cursor: str | None = None) -> tuple[list[str], dict[str, bool], str | None]:
        result = tick("movements_finished", cursor)
        told = [event for event in result.asset_events if isinstance(event, dg.AssetMaterialization)]
        checks = {e.check_name: e.passed for e in result.asset_events if isinstance(e, dg.AssetCheckEvaluation)}
        ids = [str(event.metadata["request id"].value) for event in told]
        return ids, checks, result.cursor or cursor

    return once
