"""Redrive and resend: the same event under the same id, audited, in order, and never one that was not written."""

from __future__ import annotations

import uuid

import pytest

from qtg_dagster.callbacks.redriving import redrive_callbacks, resend_callbacks
from qtg_dagster.callbacks.verify import TimestampOutsideTolerance, verify, verify_v3
from qtg_dagster.domain.callbacks import CallbackStatus
from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.store.callback_desk import Resent, find_callback, given_up, list_callbacks
from qtg_dagster.store.wakeups import Wakeups
from tests.callbacks.conftest import Start
from tests.callbacks.post import Post
from tests.callbacks.receiver import answers, gate

WHO = {"actor": "ada", "reason": "the hook was moved"}


async def test_a_redrive_days_later_arrives_as_it_was_and_still_verifies(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.will(answers(404))
    post.now = 1_900_000_000.0
    await post.movement(owner.url)
    await post.round()
    assert await post.states() == ["dlq"]
    post.now += 3 * 86_400
    assert await redrive_callbacks(post.desk.engine, **WHO) == 1
    await post.deliver()
    row = await post.one()
    assert (row["status"], row["resends"]) == ("delivered", 1)
    first, again = owner.book
    assert first.body == again.body
    secrets = [Post.SECRET]
    told = verify(again.headers, again.body, secrets, now=post.now)
    assert told.event_id == str(row["event_id"]) == first.headers["webhook-id"]
    assert verify_v3(again.headers, again.body, secrets, now=post.now) == verify_v3(first.headers, first.body, secrets)
    with pytest.raises(TimestampOutsideTolerance):
        verify(first.headers, first.body, secrets, now=post.now)


async def test_a_redriven_callback_has_all_its_attempts_again(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.always = answers(500)
    post.desk.under(callback_max_attempts=2)
    await post.movement(owner.url)
    for _ in range(2):
        await post.make_due()
        await post.round()
    assert await post.states() == ["dlq"]
    await redrive_callbacks(post.desk.engine, **WHO)
    await post.round()
    row = await post.one()
    assert (row["status"], row["attempts"]) == ("pending", 1)


async def test_a_redrive_takes_what_was_meant_and_leaves_the_rest(post: Post, receiver: Start) -> None:
    one, two = await receiver(), await receiver()
    for owner in (one, two):
        owner.always = answers(410)
    first, second = await post.movement(one.url), await post.movement(two.url)
    third = await post.movement(two.url)
    await post.deliver()

    async def waiting() -> set[str]:
        return {str(row["request_id"]) for row in await post.rows() if row["status"] == "pending"}

    engine = post.desk.engine
    assert await redrive_callbacks(engine, request_id=second.upper(), **WHO) == 1
    assert await waiting() == {second}
    assert await redrive_callbacks(engine, receiver=f"127.0.0.1:{two.port}", **WHO) == 1
    assert await waiting() == {second, third}
    assert await redrive_callbacks(engine, receiver=f"127.0.0.1:{one.port}", request_id=third, **WHO) == 0
    assert await redrive_callbacks(engine, **WHO) == 1
    assert await waiting() == {first, second, third}
    trail = await post.desk.rows("SELECT * FROM qtg.audit_outbox WHERE action = 'redrive_callbacks' ORDER BY id")
    assert [(row["actor"], row["subject_id"], row["details"]["events"]) for row in trail] == [
        ("ada", second.upper(), 1),
        ("ada", f"127.0.0.1:{two.port}", 1),
        ("ada", "dlq", 1),
    ]


async def test_a_movement_is_told_once_more_in_its_order_under_the_same_ids(post: Post, receiver: Start) -> None:
    owner = await receiver()
    request_id = await post.movement(owner.url, events=3)
    await post.movement(owner.url)
    await post.deliver()
    owner.book.clear()
    before = {
        row["sequence"]: str(row["event_id"]) for row in await post.rows() if str(row["request_id"]) == request_id
    }
    assert await resend_callbacks(post.desk.engine, request_id=request_id, **WHO) == Resent(3, 3, 0)
    await post.deliver()
    assert [(told.event["sequence"], told.headers["webhook-id"]) for told in owner.book] == sorted(before.items())
    assert len(await post.rows()) == 4, "no event was made"


async def test_one_event_is_told_once_more(post: Post, receiver: Start) -> None:
    owner = await receiver()
    await post.movement(owner.url, events=2)
    await post.deliver()
    second = (await post.rows())[1]
    assert await resend_callbacks(post.desk.engine, event_id=str(second["event_id"]), **WHO) == Resent(1, 1, 0)
    await post.deliver()
    assert owner.sequences() == [1, 2, 2]


@pytest.mark.parametrize("spelled", ["0xabCDef", "0xABCDEF"])
async def test_a_transaction_leads_to_the_movements_it_is_part_of(post: Post, receiver: Start, spelled: str) -> None:
    owner = await receiver()
    request_id, _ = await post.movement(owner.url, events=2), await post.movement(owner.url)
    await post.deliver()
    await post.desk.sql(
        "UPDATE qtg.movement_request_nodes SET provider_refs = CAST(:refs AS jsonb) WHERE request_id::text = :id",
        refs='{"mint": {"tx_hash": "0xabcdef"}, "n": 1}',
        id=request_id,
    )
    assert await resend_callbacks(post.desk.engine, transaction_hash=spelled, **WHO) == Resent(2, 2, 0)
    with pytest.raises(NotFound):
        await resend_callbacks(post.desk.engine, transaction_hash="0xabcde", **WHO)


async def test_what_waits_for_its_next_attempt_need_not_wait_and_what_is_being_sent_is_let_be(
    post: Post, receiver: Start
) -> None:
    owner = await receiver()
    behaviour, open_ = gate()
    owner.will(answers(500), behaviour)
    request_id = await post.movement(owner.url)
    await post.round()
    assert await post.begin() == 0, "it waits two seconds"
    assert await resend_callbacks(post.desk.engine, request_id=request_id, **WHO) == Resent(1, 0, 1)
    assert await post.begin() == 1
    epoch = (await post.one())["claim_epoch"]
    assert await resend_callbacks(post.desk.engine, request_id=request_id, **WHO) == Resent(1, 0, 1)
    assert await post.begin() == 0
    open_.set()
    await post.settled()
    row = await post.one()
    assert (row["status"], row["claim_epoch"], row["attempts"], row["resends"]) == ("delivered", epoch, 1, 0)


async def test_a_resend_is_audited_with_what_it_meant(post: Post, receiver: Start) -> None:
    owner = await receiver()
    request_id = await post.movement(owner.url)
    await post.deliver()
    await resend_callbacks(post.desk.engine, request_id=request_id, **WHO)
    [row] = await post.desk.rows("SELECT * FROM qtg.audit_outbox WHERE action = 'resend_callbacks'")
    assert (row["actor"], row["subject_id"], row["subject_type"]) == ("ada", request_id, "callbacks")
    assert row["details"] == {
        "request_id": request_id, "events": 1, "told_again": 1, "reason": "the hook was moved",
    }  # fmt: skip


async def test_both_wake_delivery(post: Post, receiver: Start) -> None:
    import asyncio

    owner = await receiver()
    owner.will(answers(404))
    request_id = await post.movement(owner.url)
    await post.deliver()
    async with Wakeups(post.database, "deliver") as wakeups:
        await asyncio.wait_for(wakeups.event.wait(), 10)  # listening
        for act in (
            redrive_callbacks(post.desk.engine, **WHO),
            resend_callbacks(post.desk.engine, request_id=request_id, **WHO),
        ):
            wakeups.event.clear()
            await act
            await asyncio.wait_for(wakeups.event.wait(), 10)


async def test_what_is_not_said_clearly_is_refused_and_nothing_is_audited(post: Post) -> None:
    engine = post.desk.engine
    with pytest.raises(InvalidInput, match="reason"):
        await redrive_callbacks(engine, actor="ada", reason=" ")
    for given in ({}, {"event_id": "a", "request_id": "b"}):
        with pytest.raises(InvalidInput, match="exactly one"):
            await resend_callbacks(engine, **given, **WHO)
    for given in ({"event_id": str(uuid.uuid4())}, {"event_id": "x' OR 1=1"}, {"request_id": "nobody"}):
        with pytest.raises(NotFound):
            await resend_callbacks(engine, **given, **WHO)
    assert await redrive_callbacks(engine, **WHO) == 0
    assert await post.desk.rows("SELECT 1 FROM qtg.audit_outbox WHERE action LIKE '%callbacks'") == []


async def test_operators_see_what_was_told_and_what_was_given_up(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.will(answers(404, b"no hook here"))
    request_id = await post.movement(owner.url, events=2)
    await post.deliver()
    authority = f"127.0.0.1:{owner.port}"
    async with post.desk.engine.database.transaction() as tx:
        everything = await list_callbacks(tx, "sandbox")
        [lost] = await list_callbacks(tx, "sandbox", status=CallbackStatus.DLQ, request_id=request_id.upper())
        assert await list_callbacks(tx, "sandbox", receiver="nobody") == []
        assert await list_callbacks(tx, "elsewhere") == []
        shown = await find_callback(tx, "sandbox", lost.event_id)
        [account] = await given_up(tx, "sandbox")
    assert [each.sequence for each in everything] == [2, 1]
    assert shown == lost
    assert (account.receiver, account.many, account.last_error) == (authority, 1, "http_404: no hook here")
    assert f"#1   frontier_advanced     {authority}  attempts 1  http_404: no hook here" in lost.line()
