"""The sensors on a real backlog, real locks and a real instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import dagster as dg
import pytest

from qtg_dagster.composition import Platform
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.drain import DrainKind
from qtg_dagster.store.runners import Runner
from sensors import drains
from tests.orchestration.shapes import Ask, Launch, Rows, Tick


@pytest.mark.parametrize("name", ["ready_nodes", "submitted_nodes", "unknown_nodes"])
def test_without_work_nothing_is_launched(name: str, tick: Tick) -> None:
    result = tick(name)
    assert not result.run_requests
    assert "no work" in result.skip_reason.skip_message


def test_a_ready_node_launches_a_dispatch_drain_without_a_run_key(approved: str, tick: Tick) -> None:
    [request] = tick("ready_nodes").run_requests
    assert request.tags["qtg/drain"] == "dispatch"
    assert request.run_key is None
    assert not tick("submitted_nodes").run_requests


def test_further_slots_are_filled_for_what_the_drains_before_them_do_not_work_at_once(
    approved: str, approve: Callable[[], str], tick: Tick, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MG_DRAIN_SLOTS", "3")
    monkeypatch.setenv("MG_DRAIN_CONCURRENCY", "1")
    approve()
    requests = tick("ready_nodes").run_requests
    assert [request.tags["qtg/drain"] for request in requests] == ["dispatch", "dispatch/1"]

    async def first_held(platform: Platform) -> dg.SensorResult:
        identity = RunnerIdentity(DrainKind.DISPATCH, platform.settings.network_class)
        async with Runner(platform.database, identity) as runner:
            await runner.take_slot(60)
            return await asyncio.to_thread(tick, "ready_nodes")

    assert [request.tags["qtg/drain"] for request in ask(first_held).run_requests] == ["dispatch/1"]


def test_a_run_works_in_the_slot_that_its_tag_names(
    approved: str, defs: dg.Definitions, instance: dg.DagsterInstance, rows: Rows
) -> None:
    assert (
        defs.resolve_job_def("dispatch").execute_in_process(instance=instance, tags={"qtg/drain": "dispatch/2"}).success
    )
    [runner] = rows("SELECT slot FROM qtg.runners WHERE kind = 'dispatch'")
    assert runner["slot"] == 2


def test_a_launched_run_is_waited_for(
    approved: str, tick: Tick, defs: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    instance.create_run_for_job(defs.resolve_job_def("dispatch"), status=dg.DagsterRunStatus.STARTING)
    result = tick("ready_nodes")
    assert not result.run_requests
    assert "is starting" in result.skip_reason.skip_message


def test_a_drain_at_work_is_seen_by_its_lock(approved: str, tick: Tick, ask: Ask) -> None:
    async def held(platform: Platform) -> dg.SensorResult:
        identity = RunnerIdentity(DrainKind.DISPATCH, platform.settings.network_class)
        async with Runner(platform.database, identity) as runner:
            await runner.take_slot(60)
            return await asyncio.to_thread(tick, "ready_nodes")

    assert "works" in ask(held).skip_reason.skip_message
    assert tick("ready_nodes").run_requests, "the lock went with its session"


def test_a_drain_that_hangs_is_not_waited_for(
    approved: str, tick: Tick, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drains, "overdue_seconds", lambda _: 0.0)

    async def silent(platform: Platform) -> dg.SensorResult:
        identity = RunnerIdentity(DrainKind.DISPATCH, platform.settings.network_class)
        async with Runner(platform.database, identity) as runner:
            await runner.take_slot(60)
            return await asyncio.to_thread(tick, "ready_nodes")

    assert ask(silent).run_requests


def test_a_submitted_node_that_is_due_in_a_moment_already_counts(
    approved: str, launch: Launch, tick: Tick, rows: Rows, ask: Ask
) -> None:
    assert launch("dispatch").success

    async def postpone(platform: Platform, seconds: int) -> None:
        from sqlalchemy import text

        later = text("UPDATE qtg.movement_request_nodes SET next_look_at = now() + make_interval(secs => :s)")
        async with platform.database.transaction() as transaction:
            await transaction.execute(later, {"s": seconds})

    ask(lambda platform: postpone(platform, 8))
    assert tick("submitted_nodes").run_requests
    ask(lambda platform: postpone(platform, 500))
    assert not tick("submitted_nodes").run_requests
