"""Claims on callbacks: one claimant each, heads of their movements alone, receivers in turn, slow ones held down."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from psycopg.errors import CheckViolation, InsufficientPrivilege, UniqueViolation

from qtg_dagster.domain.callbacks import Attempt, CallbackStatus, ClaimedCallback, Outcome, Settlement, Verdict
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.faults import arm
from qtg_dagster.store.callbacks import CallbackOutbox
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.wakeups import Wakeups
from tests.callbacks.conftest import Start
from tests.callbacks.post import Post
from tests.callbacks.receiver import answers, hangs


def delivered(callback: ClaimedCallback) -> list[Outcome]:
    return [Outcome(callback, Attempt(Verdict.DELIVERED, 204), Settlement(CallbackStatus.DELIVERED, 0))]


@pytest.fixture
def outbox(post: Post) -> CallbackOutbox:
    return CallbackOutbox(post.database)


def url(number: int) -> str:
    return f"https://receiver{number}.example.com/hook"


async def test_only_the_oldest_unsettled_event_of_a_movement_is_claimed(post: Post, outbox: CallbackOutbox) -> None:
    await post.movement(url(1), events=3)
    [first] = await outbox.claim(post.runner, 10, per_receiver=4)
    assert first.sequence == 1
    assert await outbox.claim(post.runner, 10, per_receiver=4, in_work=[first.callback_id]) == []
    assert await outbox.settle(post.runner.runner_id, delivered(first)) == {first.callback_id}
    [second] = await outbox.claim(post.runner, 10, per_receiver=4)
    assert second.sequence == 2


async def test_later_events_wait_with_the_one_before_them_and_are_due_when_it_is_settled(
    post: Post, outbox: CallbackOutbox
) -> None:
    await post.movement(url(1), events=3)
    bystander = await post.movement(url(2), events=2)

    async def due() -> list[bool]:
        return [
            row["due"]
            for row in await post.desk.rows(
                "SELECT next_attempt_at <= now() AS due FROM qtg.movement_callback_outbox "
                "WHERE request_id::text <> :id ORDER BY sequence",
                id=bystander,
            )
        ]

    first, _ = sorted(await outbox.claim(post.runner, 10, per_receiver=4), key=lambda each: each.receiver)
    failed = Outcome(first, Attempt(Verdict.FAILED, 500, "http_500"), Settlement(CallbackStatus.PENDING, 1, 32))
    assert await outbox.settle(post.runner.runner_id, [failed])
    assert await due() == [False, False, False]
    await post.desk.sql("UPDATE qtg.movement_callback_outbox SET next_attempt_at = now() WHERE sequence = 1")
    first, _ = sorted(await outbox.claim(post.runner, 10, per_receiver=4), key=lambda each: each.receiver)
    assert await outbox.settle(post.runner.runner_id, delivered(first))
    assert await due() == [True, True, True]
    second, *_ = sorted(await outbox.claim(post.runner, 10, per_receiver=4), key=lambda each: each.receiver)
    assert second.sequence == 2


async def test_one_in_the_dlq_holds_nobody_up(post: Post, outbox: CallbackOutbox) -> None:
    await post.movement(url(1), events=2)
    [first] = await outbox.claim(post.runner, 10, per_receiver=4)
    given_up = Outcome(first, Attempt(Verdict.REFUSED, 404, "http_404"), Settlement(CallbackStatus.DLQ, 1))
    assert await outbox.settle(post.runner.runner_id, [given_up])
    [second] = await outbox.claim(post.runner, 10, per_receiver=4)
    assert second.sequence == 2


async def test_what_is_redriven_waits_for_the_one_that_is_in_flight(post: Post, outbox: CallbackOutbox) -> None:
    await post.movement(url(1), events=2)
    await post.desk.sql("UPDATE qtg.movement_callback_outbox SET status = 'dlq' WHERE sequence = 1")
    [second] = await outbox.claim(post.runner, 10, per_receiver=4)
    await post.desk.sql("UPDATE qtg.movement_callback_outbox SET status = 'pending' WHERE sequence = 1")
    assert await outbox.claim(post.runner, 10, per_receiver=4, in_work=[second.callback_id]) == []
    assert await outbox.settle(post.runner.runner_id, delivered(second)) == {second.callback_id}
    [first] = await outbox.claim(post.runner, 10, per_receiver=4)
    assert first.sequence == 1


async def test_receivers_take_turns_and_none_has_more_than_its_share(post: Post, outbox: CallbackOutbox) -> None:
    for number, many in ((1, 6), (2, 1), (3, 2)):
        for _ in range(many):
            await post.movement(url(number))
    first = await outbox.claim(post.runner, 4, per_receiver=4)
    assert Counter(each.receiver[8] for each in first) == {"1": 2, "2": 1, "3": 1}
    held = [each.callback_id for each in first]
    rest = await outbox.claim(post.runner, 10, per_receiver=4, in_work=held)
    assert Counter(each.receiver[8] for each in rest) == {"1": 2, "3": 1}
    held += [each.callback_id for each in rest]
    assert await outbox.claim(post.runner, 10, per_receiver=4, in_work=held) == []


async def test_a_courier_that_hangs_keeps_what_it_claimed_and_not_its_receivers_room(
    post: Post, outbox: CallbackOutbox
) -> None:
    for _ in range(3):
        await post.movement(url(1))
    async with PostgresStore(post.database).runner(RunnerIdentity("deliver", "sandbox")) as other:
        his = await outbox.claim(other, 2, per_receiver=2)
        assert await outbox.claim(post.runner, 10, per_receiver=2, longest_seconds=15) == []
        await post.desk.sql("UPDATE qtg.movement_callback_outbox SET claimed_at = claimed_at - interval '16 s'")
        [mine] = await outbox.claim(post.runner, 10, per_receiver=2, longest_seconds=15)
        assert mine.callback_id not in {each.callback_id for each in his}


async def test_a_suspect_gets_one_and_all_suspects_together_what_is_left_for_them(
    post: Post, outbox: CallbackOutbox
) -> None:
    for number in (1, 2, 3, 4):
        for _ in range(3):
            await post.movement(url(number))
    suspects = [f"receiver{number}.example.com" for number in (1, 2, 3)]
    taken = await outbox.claim(post.runner, 10, per_receiver=4, suspects=suspects, suspect_room=2)
    found = Counter(each.receiver[8] for each in taken)
    assert found["4"] == 3
    assert sorted(found[number] for number in "123") == [0, 1, 1]


async def test_a_dead_claimants_callbacks_are_claimed_at_once_and_its_late_word_changes_nothing(
    post: Post, outbox: CallbackOutbox
) -> None:
    await post.movement(url(1))
    async with PostgresStore(post.database).runner(RunnerIdentity("deliver", "sandbox")) as other:
        [held] = await outbox.claim(other, 10, per_receiver=4)
        assert await outbox.claim(post.runner, 10, per_receiver=4) == []
        dead = other.runner_id
    [taken] = await outbox.claim(post.runner, 10, per_receiver=4)
    assert taken.callback_id == held.callback_id
    assert await outbox.settle(dead, delivered(held)) == frozenset()
    assert (await post.one())["status"] == "pending"
    assert await outbox.settle(post.runner.runner_id, delivered(taken)) == {taken.callback_id}


async def test_two_couriers_never_have_the_same_callback(post: Post, outbox: CallbackOutbox) -> None:
    for number in range(12):
        await post.movement(url(number))
    async with PostgresStore(post.database).runner(RunnerIdentity("deliver", "sandbox")) as other:
        both = await asyncio.gather(*(outbox.claim(runner, 8, per_receiver=4) for runner in (post.runner, other)))
        ids = [each.callback_id for claimed in both for each in claimed]
        assert len(ids) == len(set(ids)) >= 8


async def test_other_network_classes_are_left_alone(post: Post, outbox: CallbackOutbox) -> None:
    await post.movement(url(1))
    await post.desk.sql("UPDATE qtg.movement_callback_outbox SET network_class = 'elsewhere'")
    assert await outbox.claim(post.runner, 10, per_receiver=4) == []
    assert await outbox.waiting("sandbox", 60) == 0
    assert await outbox.waiting("elsewhere", 60) == 1


async def test_what_is_due_later_waits_and_is_counted_within_the_horizon(post: Post, outbox: CallbackOutbox) -> None:
    await post.movement(url(1), events=2)
    await post.desk.sql("UPDATE qtg.movement_callback_outbox SET next_attempt_at = now() + interval '30 s'")
    assert await outbox.claim(post.runner, 10, per_receiver=4) == []
    assert [await outbox.waiting("sandbox", seconds) for seconds in (0, 60)] == [0, 1]


async def test_a_commit_that_tells_somebody_wakes_delivery(post: Post) -> None:
    async with Wakeups(post.database, "deliver") as wakeups:
        await asyncio.wait_for(wakeups.event.wait(), 10)  # listening
        wakeups.event.clear()
        await post.movement(url(1))
        await asyncio.wait_for(wakeups.event.wait(), 10)


async def test_what_a_callback_says_is_written_once(post: Post) -> None:
    await post.movement(url(1))
    for column in ("payload = '{}'", "body = ''", "callback_url = 'x'", "sequence = 9", "event_id = gen_random_uuid()"):
        for database in (post.database, post.desk.engine.database):
            async with database.connection() as connection:
                with pytest.raises(InsufficientPrivilege):
                    await connection.execute(f"UPDATE qtg.movement_callback_outbox SET {column}")  # type: ignore[call-overload] # noqa: S608
    await post.tell((await post.one())["request_id"], url(1))
    for wrong, refusal in (("sequence = 1", UniqueViolation), ("status = 'dlq', runner_id = 1", CheckViolation)):
        async with post.desk.owner.connection() as connection:
            with pytest.raises(refusal):
                await connection.execute(f"UPDATE qtg.movement_callback_outbox SET {wrong}")  # type: ignore[call-overload] # noqa: S608


async def test_a_hanging_receiver_keeps_only_its_own_waiting(post: Post, receiver: Start) -> None:
    post.desk.under(callback_concurrency=6, callback_concurrency_per_receiver=2, callback_timeout_seconds=30)
    stuck, owner = await receiver(), await receiver()
    stuck.always = hangs
    for _ in range(8):
        await post.movement(stuck.url)
    for _ in range(8):
        await post.movement(owner.url)
    while len(owner.book) < 8:
        await post.begin()
        await asyncio.wait_for(post.more.wait(), 10)
        post.more.clear()
    assert len(stuck.book) == 2
    assert post.courier.in_flight >= 2
    await post.courier.finish(0)
    assert Counter(await post.states()) == {"delivered": 8, "pending": 8}
    assert all(row["runner_id"] is None and row["attempts"] == 0 for row in await post.rows())


async def test_a_receiver_that_failed_is_asked_one_at_a_time_until_it_answers(post: Post, receiver: Start) -> None:
    post.desk.under(callback_concurrency_per_receiver=3)
    owner = await receiver()
    owner.will(*[answers(500)] * 3)
    for _ in range(6):
        await post.movement(owner.url)
    assert await post.round() == 3
    assert await post.round() == 1
    assert await post.round() == 2


async def test_a_courier_that_is_full_begins_nothing_and_one_that_ends_begins_nothing_more(
    post: Post, receiver: Start
) -> None:
    post.desk.under(callback_concurrency=2, callback_timeout_seconds=30)
    stuck = await receiver()
    stuck.always = hangs
    for _ in range(3):
        await post.movement(stuck.url)
    assert [await post.begin(), await post.begin()] == [2, 0]
    await post.courier.finish(0)
    assert await post.begin() == 0
    another = post.another()
    assert await another.work(post.runner, post.more) == 2, "given back, so another begins at once"
    await another.finish(0)


@pytest.mark.parametrize("point", ["callback_claim", "callback_sent_unsaved"])
async def test_what_breaks_off_is_begun_anew_after_a_wait_and_told_with_the_same_id(
    post: Post, receiver: Start, point: str
) -> None:
    owner = await receiver()
    await post.movement(owner.url)
    arm(f"{point}:raise")
    try:
        if point == "callback_claim":
            with pytest.raises(Exception, match=point):
                await post.begin()
        else:
            await post.round()
    finally:
        arm("")
    row = await post.one()
    assert (row["status"], row["attempts"]) == ("pending", 0 if point == "callback_claim" else 1)
    await post.make_due()
    await post.deliver()
    assert (await post.one())["status"] == "delivered"
    assert len(owner.book) == (1 if point == "callback_claim" else 2)
    assert len({told.headers["webhook-id"] for told in owner.book}) == 1


async def test_sequences_count_from_one_in_each_movement_whatever_order_they_come_in(post: Post) -> None:
    one, two = await post.movement(url(1)), await post.movement(url(1))
    for request_id in (two, one, two):
        await post.tell(request_id, url(2))
    rows = await post.rows()
    assert [(str(row["request_id"]) == one, row["sequence"]) for row in rows] == [
        (True, 1), (False, 1), (False, 2), (True, 2), (False, 3),
    ]  # fmt: skip


async def test_a_movement_without_a_receiver_leaves_no_trace(post: Post) -> None:
    from tests.engine.plans import node, plan_of

    await post.desk.begin(plan_of(node("first")))
    assert await post.rows() == []
