"""One submit an attempt: whoever asks again, however often, and whatever else happens at the same moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.work import Claim
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_node
from qtg_dagster.engine.requests import cancel_movement, create_movement, publish_template
from tests.engine.desk import Desk
from tests.engine.plans import begin, node, order_of, plan_of

ONE = plan_of(node("first"), key="one")


async def claimed(desk: Desk) -> Claim:
    """The claim of the only READY node."""
    [claim] = await desk.engine.store.claim_ready(desk.runner, 1)
    return claim


async def test_x1_the_venue_executes_and_the_client_times_out_first(desk: Desk) -> None:
    await desk.begin(ONE)
    desk.will("submit", "first", TimeoutError("the client gave up first"))
    await desk.dispatch()
    assert (await desk.node())["node_state"] == "UNKNOWN"
    await desk.make_due()
    await desk.recover()
    row = await desk.node()
    assert row["node_state"] == "SUBMITTED"
    assert row["provider_refs"]["reference"] == desk.provider.book[0]
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"
    assert len(desk.provider.book) == desk.provider.count("submit", "first") == 1


@pytest.mark.parametrize("answer", [TimeoutError("lost"), None])
async def test_x2_asking_again_for_the_same_attempt_reaches_no_provider(
    desk: Desk, answer: TimeoutError | None
) -> None:
    await desk.begin(ONE)
    claim = await claimed(desk)
    if answer is not None:
        desk.will("submit", "first", answer)
    await dispatch_node(desk.engine, (await desk.engine.store.load_works([claim]))[0])
    before = list(desk.provider.calls)
    for again in (claim, replace(claim, claim_epoch=claim.claim_epoch + 1)):
        await dispatch_node(desk.engine, (await desk.engine.store.load_works([again]))[0])
    assert desk.provider.calls == before
    assert len(desk.provider.book) == 1


async def test_one_claim_worked_twice_at_once_is_submitted_once(desk: Desk) -> None:
    await desk.begin(ONE)
    claim = await claimed(desk)
    works = [(await desk.engine.store.load_works([claim]))[0] for _ in range(4)]
    await asyncio.gather(*(dispatch_node(desk.engine, work) for work in works))
    assert desk.provider.count("submit", "first") == len(desk.provider.book) == 1


async def test_a_node_taken_over_in_preflight_is_submitted_by_its_new_holder_alone(desk: Desk) -> None:
    """The first runner's session dies under it; it learns of that at the latest from its intent."""
    await desk.begin(ONE)
    async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as first:
        [claim] = await desk.engine.store.claim_ready(first, 1)

        async def taken_over() -> None:
            await desk.sql("SELECT pg_terminate_backend(:pid, 5000)", pid=first.connection.info.backend_pid)
            assert await desk.dispatch() == 1

        desk.provider.during("preflight", "first", taken_over)
        await dispatch_node(desk.engine, (await desk.engine.store.load_works([claim]))[0])
    assert desk.provider.count("preflight", "first") == 2
    assert desk.provider.count("submit", "first") == 1
    assert (await desk.node())["node_state"] == "SUBMITTED"


async def test_a_cancel_and_a_dispatch_at_the_same_moment_never_both_win(desk: Desk) -> None:
    await publish_template(desk.engine, ONE)
    for lead in range(12):
        request_id = await begin(desk.engine, ONE)
        sent = len(desk.provider.book)

        async def cancel(request_id: str = request_id, lead: int = lead) -> bool:
            for _ in range(lead * 3):
                await asyncio.sleep(0)
            try:
                await cancel_movement(desk.engine, request_id, actor="heidi", reason="stop")
            except Conflict:
                return False
            return True

        _, cancelled = await asyncio.gather(desk.dispatch(), cancel())
        [row] = await desk.rows(
            "SELECT n.node_state, r.request_state FROM qtg.movement_request_nodes n "
            "JOIN qtg.movement_requests r ON r.id = n.request_id WHERE r.id::text = :id",
            id=request_id,
        )
        assert len(desk.provider.book) - sent == (0 if cancelled else 1)
        expected = ("CANCELLED", "CANCELLED") if cancelled else ("SUBMITTED", "EXECUTING")
        assert (row["node_state"], row["request_state"]) == expected


async def test_a_creation_that_another_transaction_rolls_back_leaves_its_key_free(desk: Desk) -> None:
    """Two callers with one key, and the first one's transaction fails: the second one's movement stands."""
    await publish_template(desk.engine, ONE)
    order = order_of(ONE, idempotency_key="payroll-42")

    async def create_and_fail(stored: asyncio.Event, fail: asyncio.Event) -> None:
        async with desk.engine.database.transaction() as transaction:
            assert (await create_movement(desk.engine, order, transaction)).created
            stored.set()
            await fail.wait()
            raise LookupError("the caller's own work failed")

    stored, fail = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(create_and_fail(stored, fail))
    await stored.wait()
    second = asyncio.create_task(create_movement(desk.engine, order))
    await asyncio.wait({second}, timeout=0.05)
    assert not second.done(), "the second waits for what becomes of the first"
    fail.set()
    receipt = await second
    with pytest.raises(LookupError):
        await first
    assert receipt.created
    [row] = await desk.rows("SELECT count(*) AS many, min(id::text) AS id FROM qtg.movement_requests")
    assert (row["many"], row["id"]) == (1, receipt.request_id)
