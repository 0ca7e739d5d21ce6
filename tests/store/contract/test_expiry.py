"""Movements that were not approved in time: each is called off once, whoever sweeps and whoever approves meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.errors import ApprovalExpired, Conflict
from qtg_dagster.domain.plans import ApprovalPolicy
from qtg_dagster.engine.expiry import expire_pending_requests
from qtg_dagster.engine.requests import approve_movement, cancel_movement, reject_movement
from tests.engine.plans import create, node, plan_of
from tests.store.contract.conftest import Bench

PAIR = plan_of(node("first"), node("second"), edges=(("first", "second"),), key="pair")
TWO_PEOPLE = PAIR.model_copy(update={"approval": ApprovalPolicy(required=2)})
LONG = 10 * 24 * 3600


async def test_what_waited_for_too_long_is_called_off_and_what_is_decided_or_young_is_not(bench: Bench) -> None:
    late = await create(bench.engine, PAIR)
    half = await create(bench.engine, TWO_PEOPLE)
    await approve_movement(bench.engine, half, actor="grace")
    approved = await bench.begin(PAIR)
    rejected = await create(bench.engine, PAIR)
    await reject_movement(bench.engine, rejected, actor="grace", reason="no")
    bench.ground.advance(LONG)
    young = await create(bench.engine, PAIR)
    assert await expire_pending_requests(bench.engine) == 2
    found = {each: bench.ground.request_state(each) for each in (late, half, approved, rejected, young)}
    assert found == {
        late: "EXPIRED",
        half: "EXPIRED",
        approved: "APPROVED",
        rejected: "REJECTED",
        young: "PENDING_APPROVAL",
    }
    for each in (late, half):
        assert bench.states(each) == {"first": "CANCELLED", "second": "CANCELLED"}
    assert bench.states(young) == {"first": "BLOCKED", "second": "BLOCKED"}
    assert await expire_pending_requests(bench.engine) == 0


async def test_nobody_approves_or_rejects_after_the_window_before_and_after_the_sweeper(bench: Bench) -> None:
    request_id = await create(bench.engine, PAIR)
    bench.ground.advance(LONG)
    for _ in range(2):
        with pytest.raises(ApprovalExpired):
            await approve_movement(bench.engine, request_id, actor="grace")
        with pytest.raises(ApprovalExpired):
            await reject_movement(bench.engine, request_id, actor="grace", reason="no")
        await expire_pending_requests(bench.engine)
    with pytest.raises(Conflict, match="already EXPIRED"):
        await cancel_movement(bench.engine, request_id, actor="grace", reason="tidy up")
    assert await bench.ready() == []


async def test_a_whole_heap_is_swept_in_one_pass_batch_by_batch(bench: Bench) -> None:
    ids = [await create(bench.engine, PAIR) for _ in range(45)]
    bench.ground.advance(LONG)
    assert len(await bench.store.find_expired("sandbox", 20)) == 20
    assert await expire_pending_requests(bench.engine) == 45
    assert {bench.ground.request_state(each) for each in ids} == {"EXPIRED"}


async def test_many_sweepers_expire_each_movement_once(bench: Bench) -> None:
    ids = [await create(bench.engine, PAIR) for _ in range(24)]
    bench.ground.advance(LONG)
    assert sum(await asyncio.gather(*(expire_pending_requests(bench.engine) for _ in range(6)))) == 24
    assert {bench.ground.request_state(each) for each in ids} == {"EXPIRED"}
    for each in ids:
        moves = [move for row in bench.nodes(each).values() for move in row["moves"]]
        assert [tuple(move) for move in moves] == [("BLOCKED", "CANCELLED")] * 2


async def test_the_longest_over_comes_first_and_what_was_had_is_left_out(bench: Bench) -> None:
    first = await create(bench.engine, PAIR)
    bench.ground.advance(60)
    second = await create(bench.engine, PAIR)
    bench.ground.advance(LONG)
    assert await bench.store.find_expired("sandbox", 9) == [first, second]
    assert await bench.store.find_expired("sandbox", 9, but={first}) == [second]
    assert await bench.store.find_expired("mainnet", 9) == []


async def test_of_a_cancellation_and_a_sweep_at_once_one_wins(bench: Bench) -> None:
    for _ in range(8):
        request_id = await create(bench.engine, PAIR)
        bench.ground.advance(LONG)
        cancelled, swept, again = await asyncio.gather(
            cancel_movement(bench.engine, request_id, actor="heidi", reason="stop"),
            expire_pending_requests(bench.engine),
            expire_pending_requests(bench.engine),
            return_exceptions=True,
        )
        state = bench.ground.request_state(request_id)
        assert isinstance(swept, int), swept
        assert isinstance(again, int), again
        # A sweeper that meets the other's lock leaves the movement to the next pass.
        if cancelled is None:
            assert (state, swept + again) == ("CANCELLED", 0)
        else:
            assert isinstance(cancelled, Conflict), cancelled
            assert (state, swept + again) == ("EXPIRED", 1)
