"""What every store promises of runners and wake-ups, and that a whole drain lives on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.engine.drain import Drain, DrainKind
from tests.engine.plans import chain, node, plan_of, until
from tests.store.contract.conftest import IDENTITY, Bench

#: Seconds after which a silent holder is not waited for.
NEVER = 3600.0


async def test_runners_have_ids_of_their_own(bench: Bench) -> None:
    async with bench.store.runner(IDENTITY) as third:
        assert len({bench.one.runner_id, bench.two.runner_id, third.runner_id}) == 3
        assert third.identity == IDENTITY


async def test_a_slot_has_one_holder_and_passes_on_when_that_one_is_gone(bench: Bench) -> None:
    await bench.one.take_slot(NEVER)
    assert not await bench.one.successor_waits()
    waiting = asyncio.create_task(bench.two.take_slot(NEVER))
    await until(bench.one.successor_waits, "the other waits for the slot")
    assert not waiting.done()
    bench.ground.cut(bench.one)
    await asyncio.wait_for(waiting, 20)
    assert not await bench.two.successor_waits()


async def test_a_slot_is_of_one_kind_and_one_network_class(bench: Bench) -> None:
    await bench.one.take_slot(NEVER)
    others = (replace(IDENTITY, kind="observe"), replace(IDENTITY, network_class="mainnet"))
    for identity in others:
        async with bench.store.runner(identity) as other:
            await asyncio.wait_for(other.take_slot(NEVER), 20)
            assert not await bench.one.successor_waits()


async def test_a_runner_that_was_cut_off_learns_of_it(bench: Bench) -> None:
    bench.ground.cut(bench.one)
    with pytest.raises(StaleClaim):
        await bench.one.successor_waits()
    with pytest.raises(StaleClaim):
        await bench.one.take_slot(NEVER)


async def test_a_commit_that_makes_work_wakes_those_who_do_it(bench: Bench) -> None:
    async with bench.store.wakeups("dispatch") as dispatch, bench.store.wakeups("recover") as recover:
        for wakeups in (dispatch, recover):  # each is woken once when it begins to listen
            await asyncio.wait_for(wakeups.event.wait(), 20)
            wakeups.event.clear()
        await bench.begin(plan_of(node("first")))
        await asyncio.wait_for(dispatch.event.wait(), 20)
        assert not recover.event.is_set()


async def test_drains_do_a_movement_from_its_approval_to_its_end(bench: Bench) -> None:
    settings = bench.engine.settings.model_copy(update={"drain_poll_seconds": 0.05, "drain_linger_seconds": 60.0})
    engine = replace(bench.engine, settings=settings)
    drains = [Drain(engine, kind) for kind in DrainKind]
    running = [asyncio.create_task(drain.run()) for drain in drains]
    request_id = await bench.begin(chain())

    async def done() -> bool:
        await asyncio.to_thread(bench.ground.advance, 10)  # a drain may hold a row that it waits for
        return bench.ground.request_state(request_id) == "COMPLETED"

    await until(done, "the movement is COMPLETED")
    for drain in drains:
        drain.stop("the test is over")
    reports = await asyncio.gather(*running)
    assert sum(report.errors for report in reports) == 0
