"""Callbacks in the delivery drain, from the commit that tells of a change to the owner's door."""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.engine.requests import approve_movement
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.upkeep.delivery import Delivery
from tests.callbacks.conftest import Start
from tests.callbacks.post import Post
from tests.callbacks.receiver import answers
from tests.engine.plans import node, plan_of, until


async def test_each_change_of_a_movement_reaches_its_owner_as_it_happens(post: Post, receiver: Start) -> None:
    owner = await receiver()
    post.desk.under(callback_dispatch_interval_seconds=3600, drain_linger_seconds=3600, drain_poll_seconds=3600)
    post.desk.will("observe", "first", ResultStatus.COMPLETED)
    drain = Delivery(PostgresStore(post.database), post.settings, [post.another()])
    task = asyncio.create_task(drain.run())

    def states() -> list[str]:
        return [told.event["payload"]["request_state"] for told in owner.book]

    async def told(expected: list[str]) -> None:
        async def so() -> bool:
            return states() == expected

        await until(so, f"{expected} told")

    request_id = await post.desk.create(plan_of(node("first")), callback_url=owner.url)
    await approve_movement(post.desk.engine, request_id, actor="grace")
    await told(["APPROVED"])
    await post.desk.dispatch()
    await told(["APPROVED", "EXECUTING"])
    await post.desk.make_due()
    await post.desk.observe()
    await told(["APPROVED", "EXECUTING", "COMPLETED"])
    drain.stop("seen enough")
    report = await task
    assert report.items == {"callback_dispatcher": 3}
    assert report.errors == {}


async def test_a_drain_that_ends_gives_back_what_it_could_not_finish(post: Post, receiver: Start) -> None:
    owner = await receiver()
    post.desk.under(drain_stop_grace_seconds=0, callback_timeout_seconds=60)
    never = asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await never.wait()

    owner.will(waits, answers(204))
    await post.movement(owner.url)
    drain = Delivery(PostgresStore(post.database), post.settings, [post.another()])
    task = asyncio.create_task(drain.run())

    async def arrived() -> bool:
        return len(owner.book) == 1

    await until(arrived, "the request arrived")
    drain.stop("deployed anew")
    await task
    row = await post.one()
    assert (row["status"], row["runner_id"], row["attempts"]) == ("pending", None, 0)
    assert await post.round() == 1
    assert (await post.one())["status"] == "delivered"
