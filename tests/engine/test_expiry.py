"""Approval windows that close: what is written with it, and races at the last moment, on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from qtg_dagster import faults
from qtg_dagster.domain.errors import ApprovalExpired
from qtg_dagster.domain.plans import ApprovalPolicy
from qtg_dagster.domain.requests import Approval
from qtg_dagster.engine.expiry import expire_pending_requests
from qtg_dagster.engine.requests import approve_movement
from tests.engine.desk import Desk
from tests.engine.plans import chain, node, plan_of

ONE = plan_of(node("first"), key="one")
TWO_PEOPLE = ONE.model_copy(update={"approval": ApprovalPolicy(required=2)})


async def close_windows(desk: Desk, ahead: str = "0 s") -> None:
    """Let every window that is open end so far ahead of this moment."""
    await desk.sql(
        "UPDATE qtg.movement_requests SET expires_at = clock_timestamp() + CAST(:ahead AS interval) "
        "WHERE request_state = 'PENDING_APPROVAL'",
        ahead=ahead,
    )


@pytest.fixture
def _disarmed() -> Iterator[None]:
    yield
    faults.arm("")


async def test_the_owner_is_told_once_and_the_trail_names_the_plan(desk: Desk) -> None:
    request_id = await desk.create(chain(), callback_url="https://desk.example/")
    await close_windows(desk)
    assert await expire_pending_requests(desk.engine) == 1
    assert await expire_pending_requests(desk.engine) == 0
    [told] = await desk.callbacks()
    assert told["event_type"] == "request_state_changed"
    assert told["payload"] == {"request_id": request_id, "request_state": "EXPIRED"}
    [request] = await desk.rows("SELECT *, finished_at IS NOT NULL AS over FROM qtg.movement_requests")
    assert (request["request_state"], request["over"], request["state_version"]) == ("EXPIRED", True, 1)
    [trail] = await desk.rows("SELECT * FROM qtg.audit_outbox WHERE action = 'expire'")
    assert (trail["actor"], trail["subject_id"]) == ("system:expiration_checker", request_id)
    assert trail["details"]["compiled_plan_hash"] == request["compiled_plan_hash"]
    assert trail["details"]["approval_digest"] == request["approval_digest"]
    assert trail["details"]["approvals"] == "0 of 1"
    for key in ("first", "watch", "last"):
        [step] = await desk.steps(key)
        assert (step["step_kind"], step["from_state"], step["to_state"]) == ("timed_out", "BLOCKED", "CANCELLED")
        assert step["actor"] == "system:expiration_checker"
        assert "not approved before" in step["facts"]["reason"]


async def test_half_of_the_approvals_do_not_keep_it_alive_and_stay_on_record(desk: Desk) -> None:
    request_id = await desk.create(TWO_PEOPLE)
    await approve_movement(desk.engine, request_id, actor="grace")
    await close_windows(desk)
    assert await expire_pending_requests(desk.engine) == 1
    with pytest.raises(ApprovalExpired):
        await approve_movement(desk.engine, request_id, actor="heidi")
    assert await desk.rows("SELECT actor, decision FROM qtg.movement_approvals") == [
        {"actor": "grace", "decision": "approved"}
    ]
    [trail] = await desk.rows("SELECT details FROM qtg.audit_outbox WHERE action = 'expire'")
    assert trail["details"]["approvals"] == "1 of 2"


async def test_an_approval_that_began_in_time_and_comes_after_the_sweeper_is_refused(desk: Desk) -> None:
    request_id = await desk.create(ONE)
    async with desk.engine.database.transaction() as early:
        await early.exec_driver_sql("SELECT now()")  # its time stands still from here on, before the window closes
        await close_windows(desk)
        assert await expire_pending_requests(desk.engine) == 1
        with pytest.raises(ApprovalExpired):
            await approve_movement(desk.engine, request_id, actor="grace", transaction=early)
    assert await desk.request_state() == "EXPIRED"
    assert await desk.rows("SELECT 1 FROM qtg.movement_approvals") == []


async def test_an_approval_that_began_in_time_and_is_being_written_is_passed_by_and_stands(desk: Desk) -> None:
    request_id = await desk.create(ONE)
    async with desk.engine.database.transaction() as early:
        await early.exec_driver_sql("SELECT now()")
        await close_windows(desk)
        await approve_movement(desk.engine, request_id, actor="grace", transaction=early)
        assert await desk.engine.store.find_expired("sandbox", 9) == [request_id], "others still see it waiting"
        assert await expire_pending_requests(desk.engine) == 0
    assert await expire_pending_requests(desk.engine) == 0
    assert await desk.request_state() == "APPROVED"


async def test_a_movement_that_somebody_holds_is_left_to_the_next_pass(desk: Desk) -> None:
    request_id, other = await desk.create(ONE), await desk.create(ONE)
    await close_windows(desk)
    async with desk.engine.store.deciding() as holder:
        assert await holder.lock_expired(request_id, "sandbox") is not None
        assert await expire_pending_requests(desk.engine) == 1, "the other one, and no waiting"
    assert (await desk.engine.store.read_request(other, "sandbox")).request_state == "EXPIRED"
    assert await expire_pending_requests(desk.engine) == 1


@pytest.mark.parametrize("plan", [ONE, TWO_PEOPLE])
async def test_at_the_last_moment_either_the_approval_or_the_expiry_wins(desk: Desk, plan: object) -> None:
    first = plan is ONE
    wins = {"APPROVED": 0, "EXPIRED": 0}
    for _ in range(25):
        request_id = await desk.create(plan)  # type: ignore[arg-type]
        if not first:
            await approve_movement(desk.engine, request_id, actor="heidi")
        await close_windows(desk, "4 ms")

        async def approve(request_id: str = request_id) -> Approval:
            for _ in range(3):  # some moments of other work, so that the window closes meanwhile or does not
                await desk.engine.store.read_request(request_id, "sandbox")
            return await approve_movement(desk.engine, request_id, actor="grace")

        async def sweep(request_id: str = request_id) -> int:
            swept = 0
            while (await desk.engine.store.read_request(request_id, "sandbox")).request_state == "PENDING_APPROVAL":
                swept += await expire_pending_requests(desk.engine)
            return swept

        approved, *swept = await asyncio.gather(approve(), sweep(), sweep(), return_exceptions=True)
        [row] = await desk.rows(
            "SELECT request_state, (SELECT count(*) FROM qtg.movement_approvals a WHERE a.request_id = r.id) AS words "
            "FROM qtg.movement_requests r WHERE id = CAST(:id AS uuid)",
            id=request_id,
        )
        wins[row["request_state"]] += 1
        if isinstance(approved, Approval):
            assert (row["request_state"], row["words"], swept) == ("APPROVED", 1 if first else 2, [0, 0])
        else:
            assert isinstance(approved, ApprovalExpired), approved
            assert (row["request_state"], row["words"], sum(swept)) == ("EXPIRED", 0 if first else 1, 1)
    assert sum(wins.values()) == 25


@pytest.mark.usefixtures("_disarmed")
async def test_one_that_cannot_be_expired_stands_in_nobodys_way_and_is_not_hidden(desk: Desk) -> None:
    ids = [await desk.create(ONE) for _ in range(4)]
    await close_windows(desk)
    faults.arm("expire:raise:2")
    with pytest.raises(faults.FaultInjected):
        await expire_pending_requests(desk.engine)
    left = await desk.rows("SELECT id::text AS id FROM qtg.movement_requests WHERE request_state = 'PENDING_APPROVAL'")
    assert len(left) == 1
    assert left[0]["id"] in ids
    assert await expire_pending_requests(desk.engine) == 1


async def test_another_network_class_is_left_alone(desk: Desk) -> None:
    await desk.create(ONE)
    await close_windows(desk)
    desk.under(network_class="mainnet")
    assert await expire_pending_requests(desk.engine) == 0
    assert await desk.request_state() == "PENDING_APPROVAL"
