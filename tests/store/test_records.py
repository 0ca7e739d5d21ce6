"""Templates, heartbeats and the backlog."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.canonical import json_problem
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.requests import StoredPlan
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.store.life_signs import seed_heartbeats
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.templates import PlanVersions
from tests.store.conftest import Seed, plan_of


async def publish(database: Database, plan: Plan) -> StoredPlan:
    async with database.transaction() as tx:
        return await PlanVersions(tx).publish_plan(plan)


async def test_the_same_plan_is_the_same_version_and_a_change_the_next(database: Database) -> None:
    plan = plan_of("a", "b")
    first = await publish(database, plan)
    assert await publish(database, plan) == first
    changes: list[dict[str, object]] = [{"title": "Other"}, {"description": "x"}, {"risk_controls": {"hard_cap": "5"}}]
    document = plan.model_dump(mode="json")
    for version, change in enumerate(changes, start=2):
        document = {**document, **change}
        stored = await publish(database, Plan.model_validate(document))
        assert (stored.version, stored.plan) == (version, Plan.model_validate(document))
    async with database.transaction() as tx:
        old = await PlanVersions(tx).find_plan("sample", 1)
        assert old == first
        assert (await PlanVersions(tx).require_plan("sample")).version == 4
    assert (await publish(database, plan)).version == 5


async def test_a_plan_reads_back_as_it_was_whatever_its_config_holds(database: Database) -> None:
    document = plan_of("a").model_dump(mode="json")
    document["nodes"][0]["config"] = {
        "list": [1, {"x": None}],
        "text": "ü $1",
        "flag": True,
        "nested": {"b": 1, "a": 2},
    }
    plan = Plan.model_validate(document)
    assert (await publish(database, plan)).plan == plan
    assert (await publish(database, plan)).version == 1


async def test_many_publish_the_same_plan_at_once(database: Database) -> None:
    stored = await asyncio.gather(*(publish(database, plan_of("a")) for _ in range(5)))
    assert {item.version for item in stored} == {1}


async def test_a_retired_version_is_out_of_use_and_its_number_is_not_reused(database: Database, seed: Seed) -> None:
    await publish(database, plan_of("a"))
    await seed.sql("UPDATE qtg.movement_plan_versions SET retired_at = now()")
    async with database.transaction() as tx:
        assert await PlanVersions(tx).find_plan("sample") is None
    assert (await publish(database, plan_of("a"))).version == 2


async def test_an_unknown_template_is_refused_with_those_that_there_are(database: Database) -> None:
    async with database.transaction() as tx:
        with pytest.raises(InvalidInput, match="none yet"):
            await PlanVersions(tx).require_plan("sample")
        await PlanVersions(tx).publish_plan(plan_of("a"))
        assert await PlanVersions(tx).template_keys() == ["sample"]
        with pytest.raises(InvalidInput, match=r"'sample version 2'.*Use one of: sample"):
            await PlanVersions(tx).require_plan("sample", 2)


async def test_a_heartbeat_keeps_attempt_and_success_apart(database: Database, seed: Seed) -> None:
    await seed_heartbeats(database, "sandbox", ["node_dispatcher", "node_observer"])
    await seed_heartbeats(database, "sandbox", ["node_dispatcher"])
    rows = await seed.rows("SELECT worker, last_attempt_at FROM qtg.worker_heartbeats ORDER BY worker")
    assert [tuple(row.values()) for row in rows] == [("node_dispatcher", None), ("node_observer", None)]

    async def read() -> dict[str, object]:
        [row] = await seed.rows(
            "SELECT * FROM qtg.worker_heartbeats WHERE (network_class, worker) = ('sandbox', 'node_dispatcher')"
        )
        return row

    await Heartbeats(database).beat("sandbox", "node_dispatcher", duration_ms=5, items=3)
    good = await read()
    assert (good["last_outcome"], good["last_items"], good["consecutive_errors"]) == ("ok", 3, 0)
    for count in (1, 2):
        await Heartbeats(database).beat(
            "sandbox", "node_dispatcher", duration_ms=5, items=0, error=OSError("password=hunter2")
        )
        bad = await read()
        assert (bad["last_outcome"], bad["consecutive_errors"]) == ("error", count)
        assert bad["last_success_at"] == good["last_success_at"]
        assert "hunter2" not in str(bad)
    await Heartbeats(database).beat("sandbox", "node_dispatcher", duration_ms=5, items=0)
    assert ((await read())["consecutive_errors"], (await read())["last_error"]) == (0, None)
    await Heartbeats(database).beat("mainnet", "node_dispatcher", duration_ms=1, items=0, error=OSError("x"))
    assert (await read())["consecutive_errors"] == 0


async def test_the_backlog_counts_what_each_drain_would_find(store: PostgresStore, seed: Seed) -> None:
    await seed.movement(None, None)
    await seed.movement(None, state="SUBMITTED")
    await seed.movement(None, state="UNKNOWN")
    await seed.movement(None, state="SUBMITTING")
    backlog = await store.count_backlog("sandbox")
    assert (backlog.dispatch, backlog.observe, backlog.recover) == (2, 1, 2)
    assert (await store.count_backlog("mainnet")).of("dispatch") == 0
    await seed.sql("UPDATE qtg.movement_request_nodes SET next_look_at = now() + interval '20 s'")
    later = await store.count_backlog("sandbox")
    assert (later.dispatch, later.observe, later.recover) == (0, 0, 1)
    assert (await store.count_backlog("sandbox", horizon_seconds=30)) == backlog


async def test_a_horizon_below_zero_counts_what_has_waited_for_so_long(store: PostgresStore, seed: Seed) -> None:
    for state in ("READY", "SUBMITTED", "UNKNOWN", "SUBMITTING"):
        await seed.movement(None, state=state)
    fresh = await store.count_backlog("sandbox", horizon_seconds=-30)
    assert (fresh.dispatch, fresh.observe, fresh.recover) == (0, 0, 0)
    await seed.sql(
        "UPDATE qtg.movement_request_nodes SET next_look_at = now() - interval '40 s' WHERE node_state <> 'SUBMITTING'"
    )
    older = await store.count_backlog("sandbox", horizon_seconds=-30)
    assert (older.dispatch, older.observe, older.recover) == (1, 1, 1)
    assert (await store.count_backlog("sandbox")).recover == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1}, "a\x00", "\ud83d", object()])
def test_what_jsonb_cannot_hold_is_known_beforehand(value: object) -> None:
    assert json_problem({"deep": [value]})


@pytest.mark.parametrize("value", [None, 1, "ü\n", [], {"a": [1.5]}])
def test_what_jsonb_can_hold_is_no_problem(value: object) -> None:
    assert json_problem(value) is None
