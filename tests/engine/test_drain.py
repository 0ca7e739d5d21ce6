"""Drains: quick to wake, clean to stop, and never two that think they own the same work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine import shift as shifts
from qtg_dagster.engine.drain import Drain, DrainKind, DrainReport
from qtg_dagster.engine.requests import publish_template
from qtg_dagster.store import lines
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.slots import slot_state
from tests.engine.desk import Desk
from tests.engine.plans import begin, node, plan_of, until
from tests.postgres_proxy import PostgresProxy

ONE = plan_of(node("first"), key="one")
Running = tuple[Drain, "asyncio.Task[DrainReport]"]
Start = Callable[..., Running]


@pytest.fixture
async def start(desk: Desk) -> AsyncIterator[Start]:
    """Start a drain under changed settings; all are stopped at the end."""
    running: list[Running] = []

    def run(kind: DrainKind = DrainKind.DISPATCH, **settings: object) -> Running:
        changed = desk.engine.settings.model_copy(update={"drain_linger_seconds": 60.0, **settings})
        drain = Drain(replace(desk.engine, settings=changed), kind)
        running.append((drain, asyncio.create_task(drain.run())))
        return running[-1]

    yield run
    for drain, _ in running:
        drain.stop("the test is over")
    await asyncio.wait_for(asyncio.gather(*(task for _, task in running), return_exceptions=True), 60)


async def until_at_work(desk: Desk, waiters: int = 0, kind: DrainKind = DrainKind.DISPATCH) -> None:
    """Until a drain holds the slot and so many wait for it."""

    async def at_work() -> bool:
        state = await slot_state(desk.engine.database, kind, "sandbox")
        return state.held and state.waiters == waiters

    await until(at_work, f"a drain works and {waiters} wait")


async def until_state(desk: Desk, state: str, many: int = 1) -> None:
    async def there() -> bool:
        return list((await desk.node_states()).values()).count(state) == many

    await until(there, f"{many} nodes are {state}")


async def test_a_burst_is_worked_off_by_three_drains_that_then_end_idle(desk: Desk, start: Start) -> None:
    await publish_template(desk.engine, ONE)
    for _ in range(15):
        await begin(desk.engine, ONE)
    desk.will("submit", "first", *[TimeoutError("lost")] * 3)
    drains = [start(kind, drain_linger_seconds=2.0) for kind in DrainKind]
    reports = await asyncio.wait_for(asyncio.gather(*(task for _, task in drains)), 60)
    assert set((await desk.node_states()).values()) == {"COMPLETED"}
    assert len(desk.provider.book) == len(set(desk.provider.book)) == 15
    assert [report.ended_because for report in reports] == ["idle"] * 3
    assert [report.nodes for report in reports] == [15, 15, 3]
    assert sum(report.errors for report in reports) == 0
    rows = await desk.rows("SELECT worker FROM qtg.worker_heartbeats ORDER BY worker")
    assert [row["worker"] for row in rows] == ["node_dispatcher", "node_observer", "node_recovery"]


async def test_work_wakes_a_drain_long_before_its_poll(desk: Desk, start: Start) -> None:
    start(DrainKind.DISPATCH, drain_poll_seconds=60.0)
    start(DrainKind.OBSERVE, drain_poll_seconds=60.0)
    await until_at_work(desk)
    await until_at_work(desk, kind=DrainKind.OBSERVE)
    await desk.begin(plan_of(node("first"), node("last"), edges=(("first", "last"),)))

    async def done() -> bool:
        return await desk.request_state() == "COMPLETED"

    await until(done, "two nodes are dispatched and observed without a poll", seconds=20)


async def test_an_uncertain_node_wakes_recovery(desk: Desk, start: Start) -> None:
    start(DrainKind.RECOVER, drain_poll_seconds=60.0)
    await until_at_work(desk, kind=DrainKind.RECOVER)
    await desk.begin(ONE)
    desk.will("submit", "first", TimeoutError("lost"))
    await desk.dispatch()
    await until_state(desk, "SUBMITTED")


async def test_the_next_in_line_for_a_serialization_key_need_not_wait_for_a_poll(desk: Desk, start: Start) -> None:
    keyed = plan_of(node("first", executor="exec.local.keyed"), key="keyed")
    await publish_template(desk.engine, keyed)
    for _ in range(4):
        await begin(desk.engine, keyed)
    desk.will("submit", "first", TimeoutError("lost"))
    start(DrainKind.DISPATCH, drain_poll_seconds=60.0)
    await until_state(desk, "UNKNOWN")
    start(DrainKind.RECOVER, drain_poll_seconds=60.0)
    await until_state(desk, "SUBMITTED", many=4)
    assert len(desk.provider.book) == len(set(desk.provider.book)) == 4


async def test_stop_takes_nothing_new_and_finishes_what_is_in_flight(desk: Desk, start: Start) -> None:
    drain, task = start(drain_poll_seconds=60.0)
    await until_at_work(desk)
    let_go = asyncio.Event()

    async def hold() -> None:
        await let_go.wait()

    desk.provider.during("submit", "first", hold)
    await desk.begin(ONE)
    await until_state(desk, "SUBMITTING")
    drain.stop("asked to")
    await begin(desk.engine, ONE)
    let_go.set()
    report = await asyncio.wait_for(task, 30)
    assert (report.ended_because, report.nodes) == ("asked to", 1)
    assert sorted((await desk.node_states()).values()) == ["READY", "SUBMITTED"]
    [row] = await desk.rows("SELECT end_reason FROM qtg.runners WHERE id = :id", id=report.runner_id)
    assert row["end_reason"] == "finished"


async def test_what_does_not_finish_within_the_grace_is_left_to_recovery(desk: Desk, start: Start) -> None:
    drain, task = start(drain_stop_grace_seconds=0.1)

    async def never() -> None:
        await asyncio.Event().wait()

    desk.provider.during("submit", "first", never)
    await desk.begin(ONE)
    await until_state(desk, "SUBMITTING")
    drain.stop("asked to")
    await asyncio.wait_for(task, 30)
    assert (await desk.node())["node_state"] == "SUBMITTING"
    assert await desk.dispatch() == 0
    assert await desk.recover() == 1
    assert desk.provider.count("submit", "first") == 1


async def test_a_successor_waits_and_takes_over_without_a_gap(desk: Desk, start: Start) -> None:
    _, first = start(drain_budget_seconds=0.5)
    await until_at_work(desk)
    start()
    report = await asyncio.wait_for(first, 30)
    assert report.ended_because == "handed over to its successor"
    await desk.begin(ONE)
    await until_state(desk, "SUBMITTED")


async def test_ready_work_goes_on_beside_a_drain_that_hangs_and_its_claims_stay_its_own(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shifts, "overdue_seconds", lambda _: 0.5)
    await publish_template(desk.engine, ONE)
    await begin(desk.engine, ONE)
    async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as stopped:
        await stopped.take_slot(60)
        [claimed] = await desk.engine.store.claim_ready(stopped, 1)
        await begin(desk.engine, ONE)
        start()
        await until_state(desk, "SUBMITTED")
        kept = await desk.rows("SELECT id::text, runner_id FROM qtg.movement_request_nodes WHERE node_state = 'READY'")
        assert kept == [{"id": claimed.node_id, "runner_id": stopped.runner_id}]
    await until_state(desk, "SUBMITTED", many=2)
    assert len(desk.provider.book) == len(set(desk.provider.book)) == 2


async def test_without_a_successor_a_drain_goes_on_past_its_budget_and_then_ends(desk: Desk, start: Start) -> None:
    _, task = start(drain_budget_seconds=0.5)
    assert (await asyncio.wait_for(task, 30)).ended_because == "budget spent"


async def test_a_drain_that_waits_for_its_slot_can_be_stopped(desk: Desk, start: Start) -> None:
    start()
    await until_at_work(desk)
    second, task = start()
    await until_at_work(desk, waiters=1)
    second.stop("not needed")
    report = await asyncio.wait_for(task, 30)
    assert (report.ended_because, report.nodes) == ("not needed", 0)
    await until_at_work(desk, waiters=0)


async def test_a_drain_that_lost_its_session_ends_and_another_takes_over(desk: Desk, start: Start) -> None:
    first, task = start()
    await until_at_work(desk)
    start()
    await until_at_work(desk, waiters=1)
    await desk.sql(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted "
        "AND l.objid::bigint = :runner AND l.objsubid = 2",
        runner=first.report.runner_id,
    )
    report = await asyncio.wait_for(task, 30)
    assert report.ended_because == "lost its database session"
    await desk.begin(ONE)
    await until_state(desk, "SUBMITTED")
    assert len(desk.provider.book) == 1


async def test_a_node_that_fails_in_us_neither_spins_nor_holds_the_others(desk: Desk, start: Start) -> None:
    await desk.begin(ONE)
    await desk.sql("UPDATE qtg.movement_plan_nodes SET executor_key = NULL")  # no plan any more
    poisoned = desk.request_id
    drain, _ = start(drain_poll_seconds=0.05)
    await begin(desk.engine, plan_of(node("first"), key="healthy"))
    await until_state(desk, "SUBMITTED")

    async def given_back() -> bool:
        [row] = await desk.rows(
            "SELECT runner_id, next_look_at > now() AS later FROM qtg.movement_request_nodes "
            "WHERE request_id::text = :id",
            id=poisoned,
        )
        return row["runner_id"] is None and bool(row["later"])

    await until(given_back, "the poisoned node is put off")
    assert drain.report.errors <= 2


async def test_an_outcome_outlives_a_database_that_goes_away_after_the_submit(desk: Desk) -> None:
    await desk.begin(ONE)
    async with PostgresProxy(desk.engine.database.url) as proxy:
        through = replace(desk.engine, store=PostgresStore(Database(proxy.url, pool_size=2)))
        async with through.store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
            there = replace(desk, engine=through, runner=runner)
            desk.provider.during("submit", "first", lambda: proxy.go_away(refusals=4))
            assert await there.dispatch() == 1
        assert proxy.refusals_left == 0
        await through.database.close()
    assert (await desk.node())["node_state"] == "SUBMITTED"
    assert len(desk.provider.book) == 1


async def test_an_outcome_outlives_a_line_that_falls_silent_after_the_submit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "ANSWER_SECONDS", 0.5)
    await desk.begin(ONE)
    async with PostgresProxy(desk.engine.database.url) as proxy:
        through = replace(desk.engine, store=PostgresStore(Database(proxy.url, pool_size=2)))

        async def fall_silent() -> None:
            proxy.fall_silent()

        async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
            there = replace(desk, engine=through, runner=runner)
            desk.provider.during("submit", "first", fall_silent)
            assert await there.dispatch() == 1
        await through.database.close()
    assert (await desk.node())["node_state"] == "SUBMITTED"
    assert len(desk.provider.book) == 1


async def test_a_drain_whose_session_falls_silent_ends_and_leaves_its_node_to_others(
    desk: Desk, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "ANSWER_SECONDS", 0.5)
    let_go = asyncio.Event()

    async def hold() -> None:
        await let_go.wait()

    desk.provider.during("submit", "first", hold)
    await desk.begin(ONE)
    async with PostgresProxy(desk.engine.database.url) as proxy:
        direct = desk.engine
        desk.engine = replace(direct, store=PostgresStore(Database(proxy.url, pool_size=2)))
        _, silenced = start(DrainKind.DISPATCH, drain_poll_seconds=0.05, drain_stop_grace_seconds=0.0)
        pooled, desk.engine = desk.engine.database, direct
        await until_state(desk, "SUBMITTING")
        proxy.fall_silent()
        assert (await asyncio.wait_for(silenced, 30)).ended_because == "lost its database session"
        await pooled.close()
    start(DrainKind.RECOVER, drain_poll_seconds=0.05)
    await until_state(desk, "SUBMITTED")
    assert len(desk.provider.book) == 1


async def test_a_drain_survives_a_database_that_goes_away(desk: Desk, start: Start) -> None:
    async with PostgresProxy(desk.engine.database.url) as proxy:
        direct = desk.engine
        desk.engine = replace(direct, store=PostgresStore(Database(proxy.url, pool_size=2)))
        _, cut = start(DrainKind.DISPATCH, drain_poll_seconds=0.05)
        pooled, desk.engine = desk.engine.database, direct
        await until_at_work(desk)
        await proxy.go_away(refusals=3)
        assert (await asyncio.wait_for(cut, 30)).ended_because == "lost its database session"
        await pooled.close()
    start()
    await desk.begin(ONE)
    desk.will("submit", "first", ResultStatus.COMPLETED)
    await until_state(desk, "COMPLETED")
