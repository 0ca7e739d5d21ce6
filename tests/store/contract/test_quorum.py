"""Movements that several people must approve: nothing begins before the last of them, and then once."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.plans import ApprovalPolicy
from qtg_dagster.engine.requests import approve_movement, cancel_movement, reject_movement
from tests.engine.plans import create, node, plan_of
from tests.store.contract.conftest import Bench

ONE = plan_of(node("first"), key="one")
TWO_OF_THREE = ONE.model_copy(update={"approval": ApprovalPolicy(required=2, approvers=("grace", "heidi", "ivan"))})


async def approve(bench: Bench, request_id: str, actor: str) -> str:
    return str(await approve_movement(bench.engine, request_id, actor=actor))


async def test_nothing_begins_before_the_last_approval(bench: Bench) -> None:
    request_id = await create(bench.engine, TWO_OF_THREE)
    assert await approve(bench, request_id, "grace") == "approved by grace; 1 more of 2 must approve"
    assert bench.ground.request_state(request_id) == "PENDING_APPROVAL"
    assert bench.states(request_id) == {"first": "BLOCKED"}
    assert await bench.ready() == []
    assert await approve(bench, request_id, "ivan") == "approved by grace, ivan"
    assert bench.ground.request_state(request_id) == "APPROVED"
    assert len(await bench.ready()) == 1


async def test_words_that_do_not_count_change_nothing(bench: Bench) -> None:
    request_id = await create(bench.engine, TWO_OF_THREE)
    await approve(bench, request_id, "grace")
    for actor, why in (("Grace", "approved it already"), ("mallory", "not among its approvers")):
        with pytest.raises(Conflict, match=why):
            await approve(bench, request_id, actor)
    assert (await bench.store.read_request(request_id, "sandbox")).approved_by == ("grace",)


async def test_who_asked_for_a_movement_does_not_approve_it(bench: Bench) -> None:
    request_id = await create(bench.engine, ONE)
    asked = (await bench.store.read_request(request_id, "sandbox")).requested_by
    with pytest.raises(Conflict, match="nobody approves their own movement"):
        await approve(bench, request_id, asked.upper())
    assert bench.ground.request_state(request_id) == "PENDING_APPROVAL"


async def test_one_rejection_ends_it_whoever_has_approved(bench: Bench) -> None:
    request_id = await create(bench.engine, TWO_OF_THREE)
    await approve(bench, request_id, "grace")
    await reject_movement(bench.engine, request_id, actor="heidi", reason="no")
    with pytest.raises(Conflict):
        await approve(bench, request_id, "ivan")
    assert bench.ground.request_state(request_id) == "REJECTED"


async def test_who_has_approved_may_still_reject(bench: Bench) -> None:
    request_id = await create(bench.engine, TWO_OF_THREE)
    await approve(bench, request_id, "grace")
    await reject_movement(bench.engine, request_id, actor="grace", reason="looked again")
    assert bench.ground.request_state(request_id) == "REJECTED"
    assert bench.states(request_id) == {"first": "CANCELLED"}


@pytest.mark.parametrize("cancelled", [False, True])
async def test_of_approvals_at_once_exactly_the_needed_ones_count(bench: Bench, *, cancelled: bool) -> None:
    for _ in range(6):
        request_id = await create(bench.engine, TWO_OF_THREE)
        deeds = [approve(bench, request_id, actor) for actor in ("grace", "heidi", "ivan", "GRACE")]
        if cancelled:
            deeds.append(cancel_movement(bench.engine, request_id, actor="heidi", reason="stop"))  # type: ignore[arg-type]
        done = await asyncio.gather(*deeds, return_exceptions=True)
        assert all(isinstance(each, str | Conflict | None) for each in done), done
        assert sum(isinstance(each, str) for each in done) <= 2
        state = bench.ground.request_state(request_id)
        assert state == ("CANCELLED" if cancelled and done[-1] is None else "APPROVED")
