"""Following transfers up: what settles, what is shown to people and with which words, and that nothing moves twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from qtg_dagster.domain.capital_transfers import Attention, TransferState
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.plans import ApprovalPolicy
from qtg_dagster.engine.breakers import open_breaker
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.engine.requests import approve_movement, cancel_movement, publish_template, reject_movement
from qtg_dagster.store.capital_transfers import Transfer, transfers_needing_attention
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import SENDER
from qtg_dagster.treasury.transfer_decisions import (
    cancel_capital_transfer,
    close_capital_transfer,
    retry_capital_transfer,
)
from qtg_dagster.treasury.transfer_followup import count_due
from tests.conftest import as_role
from tests.engine.desk import Desk
from tests.engine.plans import chain
from tests.engine.transfers import (
    age,
    audited,
    expire,
    follow,
    inventory_of,
    movements,
    request,
    stored_only,
    take_route,
    transfer,
)

T = TransferState
WHO: dict[str, Any] = {"actor": "grace", "reason": "seen to"}


@pytest.fixture
async def desk(desk: Desk) -> Desk:
    take_route(desk)
    await publish_template(desk.engine, chain())
    await passed(desk, minutes_ago=59)
    return desk


async def passed(desk: Desk, *, minutes_ago: int) -> None:
    """A pass was made so long ago: within the hour, the schedule starts one only for what is due."""
    await desk.sql("DELETE FROM qtg.cycles")
    await desk.sql(
        "INSERT INTO qtg.cycles (network_class, worker, cycle_key) VALUES ('sandbox', 'capital_transfer_followup', "
        "to_char(now() AT TIME ZONE 'UTC' - make_interval(mins => :ago), 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'))",
        ago=minutes_ago,
    )


async def begun(desk: Desk, *, approved: bool = False, **values: object) -> Transfer:
    """A transfer whose movement waits for approval, or is approved."""
    receipt = await request(desk.engine, **values)
    if approved:
        await approve_movement(desk.engine, str(receipt.movement_id), actor="grace")
    return await transfer(desk, receipt.transfer_id)


async def due(desk: Desk) -> int:
    return await count_due(desk.engine.database, desk.engine.settings)


async def reject(desk: Desk, movement_id: str) -> None:
    await reject_movement(desk.engine, movement_id, actor="grace", reason="not today")


async def cancel(desk: Desk, movement_id: str) -> None:
    await cancel_movement(desk.engine, movement_id, actor="grace", reason="not today")


@pytest.mark.parametrize(("end", "state"), [(reject, "REJECTED"), (cancel, "CANCELLED"), (expire, "EXPIRED")])
async def test_a_movement_that_ended_without_effect_is_a_person_s_to_decide_on(
    desk: Desk, end: Any, state: str
) -> None:
    found = await begun(desk)
    assert await due(desk) == 0
    await end(desk, found.movement_id)
    assert await due(desk) == 1
    assert dict((await follow(desk)).changes) == {"stopped": 1}
    shown = await transfer(desk, found.transfer_id)
    assert (shown.state, shown.attention_kind) == (T.NEEDS_ATTENTION, Attention.ENDED)
    assert f"movement {found.movement_id} is {state}; nothing of it moved" in str(shown.attention)
    assert (await follow(desk)).changed == 0
    assert await audited(desk) == ["request", "begin", "surface"]
    assert len(await movements(desk)) == 1

    again = await retry_capital_transfer(desk.engine, found.transfer_id, **WHO)
    assert (again.state, again.attempt_no, again.attention) == (T.MOVING, 2, None)
    assert [row["state"] for row in await movements(desk)] == [state, "PENDING_APPROVAL"]
    assert await audited(desk) == ["request", "begin", "surface", "retry", "begin"]


async def test_a_failed_movement_is_cancelled_by_the_retry_so_that_its_node_cannot_run_beside_it(desk: Desk) -> None:
    found = await begun(desk, approved=True)
    desk.will("submit", "first", ResultStatus.REJECTED)
    await desk.dispatch()
    await follow(desk)
    assert "is FAILED; nothing of it moved" in str((await transfer(desk, found.transfer_id)).attention)
    await retry_capital_transfer(desk.engine, found.transfer_id, **WHO)
    assert [row["state"] for row in await movements(desk)] == ["CANCELLED", "PENDING_APPROVAL"]
    with pytest.raises(Conflict, match="order a new one"):
        await retry_node(desk.engine, str(found.movement_id), "first", **WHO)


async def test_a_failed_movement_whose_node_is_retried_is_followed_on_and_not_doubled(desk: Desk) -> None:
    found = await begun(desk, approved=True)
    desk.will("submit", "first", ResultStatus.REJECTED)
    await desk.dispatch()
    await follow(desk)
    await retry_node(desk.engine, str(found.movement_id), "first", **WHO)
    with pytest.raises(Conflict, match=r"may still do it\. Possible now: cancel"):
        await retry_capital_transfer(desk.engine, found.transfer_id, **WHO)
    assert await due(desk) == 1
    assert dict((await follow(desk)).changes) == {"goes on": 1}
    assert (await transfer(desk, found.transfer_id)).attention is None
    assert len(await movements(desk)) == 1


async def test_what_is_unknown_is_shown_never_doubled_and_settles_when_it_turns_out_well(desk: Desk) -> None:
    found = await begun(desk, approved=True)
    desk.will("submit", "first", ResultStatus.UNKNOWN)
    await desk.dispatch()
    assert await due(desk) == 1
    await follow(desk)
    shown = await transfer(desk, found.transfer_id)
    assert (shown.state, shown.attention_kind) == (T.NEEDS_ATTENTION, Attention.MAY_HAVE_MOVED)
    assert "first is UNKNOWN" in str(shown.attention)
    for decide in (retry_capital_transfer, cancel_capital_transfer):
        with pytest.raises(Conflict, match="money may have moved: first is UNKNOWN"):
            await decide(desk.engine, found.transfer_id, **WHO)
    with pytest.raises(Conflict, match="settle or cancel the movement first"):
        await close_capital_transfer(desk.engine, found.transfer_id, **WHO)
    await desk.make_due()
    await desk.recover()
    assert dict((await follow(desk)).changes) == {"goes on": 1}
    for _ in range(3):
        await desk.make_due()
        await desk.observe()
        await desk.dispatch()
    assert dict((await follow(desk)).changes) == {"settled": 1}
    assert len(await movements(desk)) == 1
    assert len(desk.provider.book) == len(set(desk.provider.book)) == 3


async def test_a_movement_that_stopped_half_way_ends_only_by_its_own_end_or_a_person_s_word(desk: Desk) -> None:
    found = await begun(desk, approved=True)
    desk.will("submit", "last", ResultStatus.REJECTED)
    for _ in range(3):
        await desk.dispatch()
        await desk.make_due()
        await desk.observe()
    assert [row["state"] for row in await movements(desk)] == ["MANUAL_INTERVENTION"]
    await follow(desk)
    shown = await transfer(desk, found.transfer_id)
    assert shown.attention_kind is Attention.MAY_HAVE_MOVED
    assert "is MANUAL_INTERVENTION: first is COMPLETED" in str(shown.attention)
    await cancel(desk, str(found.movement_id))
    await follow(desk)
    for decide in (retry_capital_transfer, cancel_capital_transfer):
        with pytest.raises(Conflict, match=r"close it instead\. Possible now: close"):
            await decide(desk.engine, found.transfer_id, **WHO)
    closed = await close_capital_transfer(desk.engine, found.transfer_id, **WHO)
    assert (closed.state, closed.attention) == (T.CLOSED, None)
    [note] = await desk.rows("SELECT details FROM qtg.audit_outbox WHERE action = 'close_capital_transfer'")
    assert note["details"]["effects"] == ["first is COMPLETED"]
    assert len(await movements(desk)) == 1


async def test_cancelling_takes_the_movement_along(desk: Desk) -> None:
    found = await begun(desk)
    ended = await cancel_capital_transfer(desk.engine, found.transfer_id, **WHO)
    assert ended.state is T.CANCELLED
    assert [row["state"] for row in await movements(desk)] == ["CANCELLED"]
    with pytest.raises(Conflict, match=r"it is CANCELLED; request a new one\. Possible now: nothing"):
        await retry_capital_transfer(desk.engine, found.transfer_id, **WHO)
    assert (await follow(desk)).looked_at == 0


async def test_approval_is_asked_for_again_as_often_as_the_route_says(desk: Desk) -> None:
    take_route(desk, approval_rounds=2)
    found = await begun(desk)
    await expire(desk, str(found.movement_id))
    assert dict((await follow(desk)).changes) == {"asked again": 1}
    second = await transfer(desk, found.transfer_id)
    assert (second.state, second.attempt_no) == (T.MOVING, 2)
    await expire(desk, str(second.movement_id))
    assert dict((await follow(desk)).changes) == {"stopped": 1}
    assert [row["state"] for row in await movements(desk)] == ["EXPIRED", "EXPIRED"]
    assert await audited(desk) == ["request", "begin", "ask_again", "begin", "surface"]


@pytest.mark.parametrize("end", [reject, cancel])
async def test_a_person_s_no_is_not_asked_again(desk: Desk, end: Any) -> None:
    take_route(desk, approval_rounds=9)
    found = await begun(desk)
    await end(desk, found.movement_id)
    assert dict((await follow(desk)).changes) == {"stopped": 1}
    assert len(await movements(desk)) == 1


async def test_past_its_time_nobody_is_asked_again_by_itself(desk: Desk) -> None:
    take_route(desk, approval_rounds=9)
    found = await begun(desk, wanted_by="2090-01-01T00:00:00Z")
    await expire(desk, str(found.movement_id))
    await desk.sql("UPDATE qtg.capital_transfer_requests SET wanted_by = now() - interval '1 second'")
    assert dict((await follow(desk)).changes) == {"stopped": 1}


async def test_without_progress_it_is_shown_once_with_whose_approval_it_waits_for(desk: Desk) -> None:
    found = await begun(desk)
    await age(desk, 3601)
    assert await due(desk) == 1
    assert dict((await follow(desk)).changes) == {"surfaced": 1}
    shown = await transfer(desk, found.transfer_id)
    assert (shown.state, shown.attention_kind) == (T.MOVING, Attention.STALE)
    assert "it waits for approval by anybody other than ada until" in str(shown.attention)
    assert "0 of 1 approvals" in str(shown.attention)
    assert (await follow(desk)).changed == 0
    await approve_movement(desk.engine, str(found.movement_id), actor="grace")
    assert await due(desk) == 1
    assert dict((await follow(desk)).changes) == {"goes on": 1}
    assert (await transfer(desk, found.transfer_id)).attention_kind is None
    assert await audited(desk) == ["request", "begin", "surface", "go_on"]


async def test_whose_approval_is_missing_is_said_by_name(desk: Desk) -> None:
    policy = ApprovalPolicy(required=2, approvers=("grace", "heidi", "ada"), self_approval=True)
    await publish_template(desk.engine, chain().model_copy(update={"approval": policy}))
    found = await begun(desk, approved=True)
    desk.under(capital_transfer_stale_seconds=0)
    await follow(desk)
    shown = str((await transfer(desk, found.transfer_id)).attention)
    assert "it waits for approval by one of heidi, ada until" in shown
    assert "1 of 2 approvals" in shown
    await desk.sql("UPDATE qtg.movement_requests SET expires_at = now() - interval '1 second'")
    assert dict((await follow(desk)).changes) == {"surfaced": 1}
    assert "nobody approved it before" in str((await transfer(desk, found.transfer_id)).attention)


async def test_who_is_late_is_shown_with_the_node_and_what_holds_it_back(desk: Desk) -> None:
    found = await begun(desk, approved=True, wanted_by="2090-01-01T00:00:00Z")
    await open_breaker(desk.engine, "lane:local", actor="grace", reason="maintenance")
    await desk.sql(
        "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) VALUES ('sandbox', 'halt', 5, 'bug')"
    )
    await desk.sql("UPDATE qtg.capital_transfer_requests SET wanted_by = now() - interval '1 second'")
    assert await due(desk) == 1
    await follow(desk)
    shown = await transfer(desk, found.transfer_id)
    assert (shown.state, shown.attention_kind) == (T.MOVING, Attention.OVERDUE)
    assert "first is READY since" in str(shown.attention)
    assert "held back by lane:local" in str(shown.attention)
    assert "core group halted since" in str(shown.attention)
    assert (await follow(desk)).changed == 0


async def test_what_a_movement_does_counts_as_progress(desk: Desk) -> None:
    found = await begun(desk, approved=True)
    await age(desk, 3601)
    await desk.dispatch()
    assert (await follow(desk)).changed == 0
    desk.under(capital_transfer_stale_seconds=0)
    assert dict((await follow(desk)).changes) == {"surfaced": 1}
    assert "first is SUBMITTED since" in str((await transfer(desk, found.transfer_id)).attention)


async def test_what_cannot_be_begun_is_shown_with_the_reason_and_begun_by_a_retry(desk: Desk) -> None:
    transfer_id = await stored_only(desk)
    take_route(desk, template_key="renamed")
    await follow(desk)
    shown = await transfer(desk, transfer_id)
    assert (shown.state, shown.attention_kind) == (T.NEEDS_ATTENTION, Attention.NOT_BEGUN)
    assert "routes.way.template_key: there is no template 'renamed'" in str(shown.attention)
    assert (await follow(desk)).changed == 0
    assert await due(desk) == 0
    take_route(desk)
    again = await retry_capital_transfer(desk.engine, transfer_id, **WHO)
    assert (again.state, again.attempt_no) == (T.MOVING, 2)
    assert [attempt.attempt_no for attempt in again.attempts] == [2]


async def test_a_movement_that_is_not_stored_any_more_proves_nothing(desk: Desk) -> None:
    found = await begun(desk)
    await desk.sql("DELETE FROM qtg.movement_request_nodes")
    await desk.sql("DELETE FROM qtg.movement_requests")
    await follow(desk)
    assert (await transfer(desk, found.transfer_id)).attention_kind is Attention.MOVEMENT_GONE
    for decide in (retry_capital_transfer, cancel_capital_transfer):
        with pytest.raises(Conflict, match="cannot be shown; close it instead"):
            await decide(desk.engine, found.transfer_id, **WHO)
    assert (await close_capital_transfer(desk.engine, found.transfer_id, **WHO)).state is T.CLOSED


async def test_what_goes_wrong_with_one_stops_no_other_and_is_raised(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill, well = await stored_only(desk), await stored_only(desk, reason="the other")
    from qtg_dagster.treasury import transfer_followup as module

    begin = module.begin

    async def broken(engine: Any, tx: Any, one: Transfer, *, actor: str) -> None:
        if one.transfer_id == ill:
            raise OSError("no route to host")
        await begin(engine, tx, one, actor=actor)

    monkeypatch.setattr(module, "begin", broken)
    with pytest.raises(ExceptionGroup, match="1 of 2 capital transfers") as raised:
        await follow(desk)
    assert [str(error) for error in raised.value.exceptions] == ["no route to host"]
    assert (await transfer(desk, ill)).state is T.REQUESTED
    assert (await transfer(desk, well)).state is T.MOVING


async def test_all_are_looked_at_however_many_there_are(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qtg_dagster.treasury.transfer_followup._BATCH", 2)
    for number in range(5):
        await stored_only(desk, reason=str(number))
    done = await follow(desk)
    assert (done.looked_at, dict(done.changes)) == (5, {"begun": 5})


async def test_another_network_class_is_left_alone(desk: Desk) -> None:
    await stored_only(desk)
    desk.under(network_class="other")
    assert (await follow(desk)).looked_at == 0
    assert await due(desk) == 0


async def test_once_an_hour_all_is_looked_at_whatever_seemed_due(desk: Desk) -> None:
    await begun(desk)
    assert await due(desk) == 0
    await passed(desk, minutes_ago=61)
    assert await due(desk) == 1


async def test_the_sender_reads_what_people_are_to_be_told(desk: Desk, database_url: str) -> None:
    found = await begun(desk)
    await reject(desk, str(found.movement_id))
    await follow(desk)
    sender = Database(as_role(database_url, SENDER), pool_size=1)
    async with sender.transaction() as tx:
        [told] = await transfers_needing_attention(tx, "sandbox")
    await sender.close()
    assert (told.transfer_id, told.attention_kind, str(told)) == (found.transfer_id, Attention.ENDED, str(found))


async def test_a_route_that_is_gone_asks_nobody_again(desk: Desk) -> None:
    take_route(desk, approval_rounds=9)
    found = await begun(desk)
    await expire(desk, str(found.movement_id))
    without = inventory_of().model_copy(update={"routes": {}})
    desk.engine = replace(desk.engine, inventory=without)
    assert dict((await follow(desk)).changes) == {"stopped": 1}
