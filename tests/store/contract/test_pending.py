"""Movements that wait for approval: a decision counts only while they still wait, whoever read them before."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.requests import Approval, Decision, LockedRequest, NodeMove
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.engine.requests import approve_movement, cancel_movement, reject_movement
from tests.engine.plans import create, node, plan_of
from tests.store.contract.conftest import Bench

ONE = plan_of(node("first"), key="one")


def approval_of(request: LockedRequest, actor: str) -> Decision:
    moves = [NodeMove("first", NodeState.READY, StepKind.READIED, {"after": "approval"}, actor)]
    return Decision(
        actor, "approve", {}, moves=moves, state=RequestState.APPROVED, frontier=["first"], approval="approved"
    )


async def read(bench: Bench, request_id: str) -> LockedRequest:
    return await bench.store.read_request(request_id, "sandbox")


async def test_a_pending_movement_is_read_as_it_stands_and_decided_on(bench: Bench) -> None:
    request_id = await create(bench.engine, ONE)
    request = await read(bench, request_id)
    assert request.request_state is RequestState.PENDING_APPROVAL
    assert request.node_states == {"first": NodeState.BLOCKED}
    assert await bench.store.decide_pending(request, approval_of(request, "grace"))
    assert bench.states(request_id) == {"first": "READY"}
    assert bench.ground.request_state(request_id) == "APPROVED"


async def test_what_nobody_knows_cannot_be_read(bench: Bench) -> None:
    for name in ("no id at all", "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(NotFound):
            await read(bench, name)


async def test_of_two_who_read_it_waiting_one_decides(bench: Bench) -> None:
    request_id = await create(bench.engine, ONE)
    seen = [await read(bench, request_id) for _ in range(8)]
    decided = await asyncio.gather(
        *(bench.store.decide_pending(each, approval_of(each, f"approver {n}")) for n, each in enumerate(seen))
    )
    assert sorted(decided) == [False] * 7 + [True]
    assert [work.claim.node_id for work in await bench.ready()] == [bench.nodes(request_id)["first"]["id"]]


@pytest.mark.parametrize("end", [cancel_movement, reject_movement])
async def test_a_movement_that_was_ended_meanwhile_stays_ended(bench: Bench, end: object) -> None:
    request_id = await create(bench.engine, ONE)
    request = await read(bench, request_id)
    await end(bench.engine, request_id, actor="heidi", reason="no")  # type: ignore[operator]
    before = bench.ground.nodes(request_id)
    assert not await bench.store.decide_pending(request, approval_of(request, "grace"))
    assert bench.ground.nodes(request_id) == before
    assert await bench.ready() == []


async def test_a_window_that_closed_meanwhile_closes_it(bench: Bench) -> None:
    request_id = await create(bench.engine, ONE)
    request = await read(bench, request_id)
    bench.ground.advance(10 * 24 * 3600)
    assert not await bench.store.decide_pending(request, approval_of(request, "grace"))
    assert bench.ground.request_state(request_id) == "PENDING_APPROVAL"


async def test_approvals_and_a_cancellation_at_once_leave_one_winner(bench: Bench) -> None:
    for _ in range(10):
        request_id = await create(bench.engine, ONE)
        deeds = [approve_movement(bench.engine, request_id, actor=f"approver {n}") for n in range(4)]
        outcomes = await asyncio.gather(
            *deeds,
            cancel_movement(bench.engine, request_id, actor="heidi", reason="stop"),
            return_exceptions=True,
        )
        won = [each for each in outcomes if isinstance(each, Approval)]
        # A movement that was approved may still be cancelled: then both have happened, in that order.
        cancelled = outcomes[-1] is None
        assert bench.ground.request_state(request_id) == ("CANCELLED" if cancelled else "APPROVED")
        assert len(won) == 1 or (cancelled and not won)
        assert sum(isinstance(each, Conflict) for each in outcomes) == 5 - len(won) - cancelled, outcomes
