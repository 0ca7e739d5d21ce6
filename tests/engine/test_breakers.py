"""Breakers on a running engine: what is in flight finishes, nothing starts, and a release keeps its rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.breakers import close_breaker, open_breaker, release_breaker, start_paused
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import complete_manual_node, publish_template
from qtg_dagster.store.postgres import PostgresStore
from tests.engine.desk import Desk
from tests.engine.plans import begin, manual, node, plan_of, until, watch

ALL = "network:sandbox"
BREAKERS = "relation = 'qtg.breakers'::regclass"
ONE = plan_of(node("first"), key="one")


async def hold(desk: Desk, scope: str = ALL) -> None:
    await open_breaker(desk.engine, scope, actor="grace", reason="venue down")


def waits_for(desk: Desk, sql: str, many: int = 1) -> Callable[[], Awaitable[bool]]:
    """Whether so many statements wait for locks that `sql` describes."""

    async def waiting() -> bool:
        return len(await desk.rows(f"SELECT 1 FROM pg_locks WHERE NOT granted AND {sql}")) == many  # noqa: S608

    return waiting


async def test_work_is_accepted_and_not_started_until_the_breaker_is_closed(desk: Desk) -> None:
    await hold(desk)
    await desk.begin(ONE)
    assert (await desk.states(), await desk.request_state()) == ({"first": "READY"}, "APPROVED")
    assert await desk.dispatch() == 0
    await close_breaker(desk.engine, ALL, actor="ada", reason="it is back")
    assert await desk.dispatch() == 1
    assert len(desk.provider.book) == 1


async def test_what_is_in_flight_is_finished_and_seen_to_arrive_and_what_acts_after_it_waits(desk: Desk) -> None:
    await desk.begin(
        plan_of(
            node("sure"),
            node("lost"),
            watch("seen"),
            node("last"),
            edges=(("sure", "seen"), ("lost", "seen"), ("seen", "last")),
        )
    )
    desk.will("submit", "lost", TimeoutError("lost"))
    assert await desk.dispatch(2) == 2
    assert await desk.states() == {"sure": "SUBMITTED", "lost": "UNKNOWN", "seen": "BLOCKED", "last": "BLOCKED"}
    await hold(desk)
    await desk.make_due()
    assert await desk.recover() == 1
    assert await desk.observe() == 2
    assert await desk.states() == {"sure": "COMPLETED", "lost": "COMPLETED", "seen": "READY", "last": "BLOCKED"}
    assert await desk.dispatch(5) == 1, "looking starts nothing"
    await desk.make_due()
    assert await desk.observe() == 1
    assert (await desk.states())["last"] == "READY"
    assert await desk.dispatch(5) == 0
    assert await desk.request_state() == "EXECUTING"
    assert desk.provider.count("submit", "last") == 0


async def test_a_node_that_provably_never_left_is_not_sent_again_under_a_breaker(desk: Desk) -> None:
    async def opened() -> None:
        await hold(desk)

    desk.provider.during("submit", "first", opened)
    desk.will("submit", "first", ResultStatus.NOT_SENT)
    await desk.begin(ONE)
    assert await desk.dispatch() == 1
    await desk.make_due()
    assert await desk.dispatch() == 0
    assert await desk.states() == {"first": "READY"}


async def test_a_person_may_do_a_manual_step_and_retry_a_failed_node_under_a_breaker(desk: Desk) -> None:
    request_id = await desk.begin(plan_of(manual("manual_check"), node("first"), edges=(("manual_check", "first"),)))
    await hold(desk)
    await complete_manual_node(desk.engine, request_id, "manual_check", actor="ada", note="looked")
    assert (await desk.states())["first"] == "READY"
    await close_breaker(desk.engine, ALL, actor="ada")
    desk.will("submit", "first", ResultStatus.REJECTED)
    await desk.dispatch()
    await hold(desk)
    await retry_node(desk.engine, request_id, "first", actor="ada", reason="limits were raised")
    assert (await desk.states())["first"] == "READY"
    assert await desk.dispatch() == 0


async def test_the_observation_budget_begins_when_the_node_does(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await hold(desk)
    await desk.begin(plan_of(watch("first", timeout_policy={"observe_seconds": 60})))
    await desk.sql("UPDATE qtg.movement_requests SET approved_at = now() - interval '1 day'")
    await desk.sql("UPDATE qtg.movement_request_nodes SET request_created_at = now() - interval '1 day'")
    await close_breaker(desk.engine, ALL, actor="ada")
    await desk.dispatch()
    desk.will("observe", "first", ResultStatus.OBSERVING)
    await desk.observe()
    assert await desk.states() == {"first": "OBSERVING"}


@pytest.mark.parametrize("moment", ["preflight", "prepare"])
async def test_a_node_that_was_claimed_before_is_not_submitted_after(desk: Desk, moment: str) -> None:
    async def opened() -> None:
        await hold(desk, "lane:local")

    desk.provider.during(moment, "first", opened)
    await desk.begin(ONE)
    assert await desk.dispatch() == 1
    assert await desk.states() == {"first": "READY"}
    assert (desk.provider.book, desk.provider.count("submit", "first")) == ([], 0)
    assert (await desk.node())["runner_id"] is None
    await close_breaker(desk.engine, "lane:local", actor="ada")
    assert await desk.dispatch() == 1
    assert len(desk.provider.book) == 1


async def test_who_opens_a_breaker_waits_for_an_intent_that_is_being_written(desk: Desk) -> None:
    """Otherwise a node could start after its breaker was reported to be open."""
    await desk.begin(ONE)
    async with desk.engine.database.transaction() as other:

        async def lock_node() -> None:
            await other.exec_driver_sql("SELECT 1 FROM qtg.movement_request_nodes FOR UPDATE")

        desk.provider.during("prepare", "first", lock_node)
        dispatching = asyncio.create_task(desk.dispatch())
        await until(waits_for(desk, "locktype = 'transactionid'"), "the intent has read the breakers and waits")
        opening = asyncio.create_task(hold(desk))
        await until(waits_for(desk, BREAKERS), "the opening waits for the intent")
    await opening
    assert await desk.states() != {"first": "READY"}
    await dispatching
    assert len(desk.provider.book) == 1


async def test_an_intent_that_comes_while_an_opening_waits_for_another_obeys(desk: Desk) -> None:
    await desk.begin(ONE)
    await begin(desk.engine, plan_of(node("second"), key="two"))
    late, claimed = asyncio.Event(), asyncio.Event()
    async with desk.engine.database.transaction() as other:

        async def lock_first() -> None:
            await other.exec_driver_sql("SELECT 1 FROM qtg.movement_request_nodes WHERE node_key = 'first' FOR UPDATE")

        async def dally() -> None:
            claimed.set()
            await late.wait()

        desk.provider.during("prepare", "first", lock_first)
        desk.provider.during("prepare", "second", dally)
        first = asyncio.create_task(desk.dispatch())
        await until(waits_for(desk, "locktype = 'transactionid'"), "the first intent waits")
        second = asyncio.create_task(dispatch_ready_nodes(replace(desk.engine), desk.runner))
        await claimed.wait()
        opening = asyncio.create_task(hold(desk))
        await until(waits_for(desk, BREAKERS), "the opening waits for the first intent")
        late.set()
        await until(waits_for(desk, BREAKERS, many=2), "the second intent waits behind the opening")
    await asyncio.gather(opening, first, second)
    assert await desk.states() == {"first": "SUBMITTED", "second": "READY"}
    assert len(desk.provider.book) == 1


async def test_a_breaker_is_opened_all_the_same_when_an_intent_hangs_and_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qtg_dagster.store.breakers._PATIENCE_SECONDS", 0.05)
    await desk.begin(ONE)
    async with desk.engine.database.transaction() as hanging:
        await hanging.exec_driver_sql("LOCK TABLE qtg.breakers IN ROW SHARE MODE")
        with pytest.raises(Conflict, match="an intent from before does not end"):
            await hold(desk)
    assert await desk.dispatch() == 0
    await close_breaker(desk.engine, ALL, actor="ada")


async def test_who_was_claimed_before_a_breaker_needs_a_turn_when_it_is_released(desk: Desk) -> None:
    async def opened_and_released() -> None:
        await hold(desk)
        await release_breaker(desk.engine, ALL, per_minute=60, actor="ada")

    desk.provider.during("prepare", "first", opened_and_released)
    await desk.begin(ONE)
    assert await desk.dispatch() == 1
    assert await desk.states() == {"first": "READY"}
    await _until_dispatched(desk)
    assert len(desk.provider.book) == 1
    [row] = await desk.rows("SELECT let_through FROM qtg.breakers")
    assert row["let_through"] == 1


async def _until_dispatched(desk: Desk) -> None:
    async def dispatched() -> bool:
        return await desk.dispatch() == 1

    await until(dispatched, "its turn comes")


async def test_two_drains_together_keep_the_rate_of_a_release(desk: Desk) -> None:
    await publish_template(desk.engine, ONE)
    await hold(desk)
    for _ in range(12):
        await begin(desk.engine, ONE)
    await release_breaker(desk.engine, ALL, per_minute=240, actor="ada")
    tasks = [asyncio.create_task(_dispatch_on_its_own(desk.engine)) for _ in range(2)]

    async def all_sent() -> bool:
        return len(desk.provider.book) == 12

    await until(all_sent, "twelve nodes are let through")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    rows = await desk.rows("SELECT extract(epoch FROM started_at)::float AS t FROM qtg.breaker_starts ORDER BY t")
    starts = [row["t"] for row in rows]
    assert len(starts) == len(set(desk.provider.book)) == 12
    turn = 61 / 240
    for first, start in enumerate(starts):
        for later in range(first + 1, len(starts)):
            assert starts[later] - start >= (later - first) * turn - 1 - 1e-3, "a second at most is made up for"
    [breaker] = await desk.rows("SELECT let_through FROM qtg.breakers")
    assert breaker["let_through"] == 12


async def _dispatch_on_its_own(engine: Engine) -> None:
    """A dispatch loop with a store of its own, as in another process; slots would let only one of two drains work."""
    store = PostgresStore(engine.database)
    mine = replace(engine, store=store)
    async with store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        while True:
            if not await dispatch_ready_nodes(mine, runner, 4):
                await asyncio.sleep(0.05)


async def test_a_drain_that_has_only_held_back_nodes_ends_and_one_that_waits_is_woken(desk: Desk) -> None:
    await hold(desk)
    await desk.begin(ONE)
    drain = Drain(desk.engine, DrainKind.DISPATCH)
    report = await asyncio.wait_for(drain.run(), 30)
    assert (report.ended_because, report.nodes) == ("idle", 0)

    patient = desk.engine.settings.model_copy(update={"drain_poll_seconds": 60.0, "drain_linger_seconds": 60.0})
    drain = Drain(replace(desk.engine, settings=patient), DrainKind.DISPATCH)
    running = asyncio.create_task(drain.run())
    await until(_looked(desk), "the drain has looked")
    await close_breaker(desk.engine, ALL, actor="ada")

    async def sent() -> bool:
        return len(desk.provider.book) == 1

    await until(sent, "closing wakes the drain")
    drain.stop("the test is over")
    await running


def _looked(desk: Desk) -> Callable[[], Awaitable[bool]]:
    async def listening() -> bool:
        found = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN qtg_wake%' AND state = 'idle'"
        return bool(await desk.rows(found)) and bool(await desk.rows("SELECT 1 FROM qtg.worker_heartbeats"))

    return listening


async def test_opening_releasing_and_closing_are_audited_and_refused_when_they_make_no_sense(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match=r"nothing here that is called 'lane:moon'.*lane:local"):
        await open_breaker(desk.engine, "lane:moon", actor="grace", reason="x")
    with pytest.raises(InvalidInput, match="reason"):
        await open_breaker(desk.engine, ALL, actor="grace", reason=" ")
    for undo in (
        close_breaker(desk.engine, ALL, actor="ada"),
        release_breaker(desk.engine, ALL, per_minute=1, actor="a"),
    ):
        with pytest.raises(NotFound, match="open are: none"):
            await undo
    await hold(desk)
    with pytest.raises(Conflict, match="by grace: venue down"):
        await hold(desk)
    with pytest.raises(InvalidInput, match="per_minute"):
        await release_breaker(desk.engine, ALL, per_minute=0, actor="ada")
    await release_breaker(desk.engine, ALL, per_minute=6, actor="ada", reason="carefully")
    await close_breaker(desk.engine, ALL, actor="ada", reason="it is back")
    trail = await desk.rows("SELECT actor, action, subject_type, subject_id, details FROM qtg.audit_outbox ORDER BY id")
    assert [(row["actor"], row["action"], row["details"]["reason"]) for row in trail] == [
        ("grace", "open_breaker", "venue down"),
        ("ada", "release_breaker", "carefully"),
        ("ada", "close_breaker", "it is back"),
    ]
    assert {(row["subject_type"], row["subject_id"]) for row in trail} == {("breaker", ALL)}


async def test_a_released_breaker_that_is_opened_again_holds_back_whom_it_let_through(desk: Desk) -> None:
    async def again() -> None:
        await hold(desk)

    await hold(desk)
    await desk.begin(ONE)
    await release_breaker(desk.engine, ALL, per_minute=60, actor="ada")
    desk.provider.during("prepare", "first", again)
    assert await desk.dispatch() == 1
    assert await desk.states() == {"first": "READY"}
    assert [row["closed_by"] for row in await desk.rows("SELECT closed_by FROM qtg.breakers ORDER BY id")] == [
        "grace",
        None,
    ]


async def test_a_paused_start_is_made_once_and_ended_by_an_operator(desk: Desk) -> None:
    await start_paused(desk.engine)
    await start_paused(desk.engine)
    await desk.begin(ONE)
    assert await desk.dispatch() == 0
    await release_breaker(desk.engine, ALL, per_minute=60, actor="ada")
    await start_paused(desk.engine)
    [row] = await desk.rows("SELECT opened_by, reason, released_by FROM qtg.breakers")
    assert row == {"opened_by": "startup", "reason": "started paused (MG_START_PAUSED)", "released_by": "ada"}
    [audited] = await desk.rows("SELECT actor FROM qtg.audit_outbox WHERE action = 'open_breaker'")
    assert audited == {"actor": "startup"}
