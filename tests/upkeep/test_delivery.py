"""The delivery drain: couriers that do not get into each other's way, and nothing left behind when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy import text

from qtg_dagster.domain.workers import Claimant
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.database import Database
from qtg_dagster.store.life_signs import read_heartbeats
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.roles import SENDER
from qtg_dagster.store.slots import slot_state
from qtg_dagster.upkeep.delivery import DELIVER, Delivery, DeliveryReport
from tests.conftest import as_role
from tests.engine.plans import until

Running = tuple[Delivery, "asyncio.Task[DeliveryReport]"]
Start = Callable[..., Running]


@dataclass
class ScriptedCourier:
    """Begins on what it was given, and keeps it in flight until told."""

    worker: str = "callback_dispatcher"
    interval_seconds: float = 60.0
    given: int = 0
    broken: bool = False
    keeps: bool = False
    in_flight: int = 0
    rounds: int = 0
    later: int = 0
    finished_within: list[float] = field(default_factory=list)

    async def work(self, claimant: Claimant, more: asyncio.Event) -> int:  # noqa: ARG002
        self.rounds += 1
        if self.broken:
            raise ConnectionError("the channel is gone")
        if not self.given:
            return 0
        self.given -= 1
        self.in_flight += self.keeps
        return 1

    async def finish(self, seconds: float) -> None:
        self.finished_within.append(seconds)
        self.in_flight = 0

    async def waiting(self, horizon_seconds: float = 0) -> int:  # noqa: ARG002
        return self.given + self.later


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    """As the role that delivers."""
    database = Database(as_role(database_url, SENDER), pool_size=3)
    yield PostgresStore(database)
    await database.close()


@pytest.fixture
async def start(engine: Engine, store: PostgresStore) -> AsyncIterator[Start]:
    running: list[Running] = []

    def run(*couriers: ScriptedCourier, **settings: object) -> Running:
        changed = engine.settings.model_copy(update={"drain_linger_seconds": 60.0, **settings})
        delivery = Delivery(store, changed, couriers)
        running.append((delivery, asyncio.create_task(delivery.run())))
        return running[-1]

    yield run
    for delivery, _ in running:
        delivery.stop("the test is over")
    await asyncio.wait_for(asyncio.gather(*(task for _, task in running), return_exceptions=True), 60)


async def until_true(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return condition()

    await until(holds, what)


async def test_it_carries_what_there_is_and_ends_idle(start: Start) -> None:
    courier = ScriptedCourier(given=3)
    _, task = start(courier, drain_linger_seconds=0.3)
    report = await asyncio.wait_for(task, 60)
    assert (report.ended_because, report.items, report.errors) == ("idle", {"callback_dispatcher": 3}, {})
    assert courier.finished_within == [20.0]


async def test_a_round_that_found_work_is_followed_by_another_at_once(start: Start) -> None:
    courier = ScriptedCourier(given=50)
    start(courier)
    await until_true(lambda: courier.given == 0, "all fifty were begun, with a minute between idle rounds")


async def test_a_commit_that_makes_work_wakes_every_courier(start: Start, engine: Engine) -> None:
    couriers = ScriptedCourier("callback_dispatcher"), ScriptedCourier("audit_outbox_promoter")
    start(*couriers, drain_poll_seconds=60.0)
    await until_true(lambda: all(each.rounds for each in couriers), "both looked once")
    seen = [each.rounds for each in couriers]
    async with engine.database.transaction() as transaction:
        await transaction.execute(text(f"SELECT pg_notify('qtg_wake', '{DELIVER}')"))
    await until_true(
        lambda: all(each.rounds > before for each, before in zip(couriers, seen, strict=True)), "both looked again"
    )


async def test_a_failing_courier_delays_nobody_else_and_its_heartbeat_says_so(start: Start, engine: Engine) -> None:
    broken = ScriptedCourier("notification_dispatcher", interval_seconds=0.01, broken=True)
    sound = ScriptedCourier("callback_dispatcher", given=20)
    _, task = start(broken, sound)
    await until_true(lambda: not sound.given and broken.rounds >= 5, "the sound one worked while the other failed")
    beats = await read_heartbeats(engine.database, "sandbox")
    assert beats["callback_dispatcher"].last_outcome == "ok"
    assert beats["notification_dispatcher"].consecutive_errors >= 1
    assert "the channel is gone" in (beats["notification_dispatcher"].last_error or "")
    broken.broken = False
    await until_true(lambda: not task.done(), "it goes on")


async def test_from_the_fifth_error_on_a_courier_backs_off_and_nothing_wakes_it(start: Start, engine: Engine) -> None:
    broken = ScriptedCourier(interval_seconds=0.01, broken=True)
    witness = ScriptedCourier("audit_outbox_promoter")
    start(broken, witness)
    await until_true(lambda: broken.rounds == 5, "five failing rounds")

    async def five_told() -> bool:
        return (await read_heartbeats(engine.database, "sandbox"))[broken.worker].consecutive_errors == 5

    await until(five_told, "the fifth is told")
    seen = witness.rounds
    async with engine.database.transaction() as transaction:
        await transaction.execute(text(f"SELECT pg_notify('qtg_wake', '{DELIVER}')"))
    await until_true(lambda: witness.rounds > seen, "the other was woken")
    assert broken.rounds == 5


async def test_it_does_not_end_while_something_is_in_flight_or_falls_due_soon(start: Start) -> None:
    keeping, soon = ScriptedCourier(given=1, keeps=True), ScriptedCourier("audit_outbox_promoter", later=1)
    _, task = start(keeping, soon, drain_linger_seconds=0.01)
    await until_true(lambda: keeping.in_flight == 1, "one item is in flight")
    keeping.in_flight = 0
    rounds = soon.rounds
    assert rounds >= 1
    assert not task.done()
    soon.later = 0
    assert (await asyncio.wait_for(task, 60)).ended_because == "idle"


async def test_asked_to_stop_it_lets_each_courier_finish_and_frees_its_slot(start: Start, engine: Engine) -> None:
    courier = ScriptedCourier(given=1, keeps=True)
    delivery, task = start(courier, drain_stop_grace_seconds=7.0)
    await until_true(lambda: courier.in_flight == 1, "one item is in flight")
    delivery.stop("asked to")
    assert (await asyncio.wait_for(task, 60)).ended_because == "asked to"
    assert courier.finished_within == [7.0]
    assert not (await slot_state(engine.database, DELIVER, "sandbox")).held


async def test_a_courier_that_cannot_finish_keeps_nobody_from_ending(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: float) -> None:
        raise ConnectionError("the database is gone")

    stuck, other = ScriptedCourier(), ScriptedCourier("audit_outbox_promoter")
    monkeypatch.setattr(stuck, "finish", fail)
    delivery, task = start(stuck, other)
    await until_true(lambda: other.rounds > 0, "it works")
    delivery.stop("asked to")
    assert (await asyncio.wait_for(task, 60)).ended_because == "asked to"
    assert other.finished_within == [20.0]


async def test_a_successor_takes_over_where_the_budget_ends(start: Start) -> None:
    first, second = ScriptedCourier(), ScriptedCourier()
    _, ending = start(first, drain_budget_seconds=0.1)
    await until_true(lambda: first.rounds > 0, "the first works")
    start(second)
    assert (await asyncio.wait_for(ending, 60)).ended_because in ("handed over to its successor", "budget spent")
    await until_true(lambda: second.rounds > 0, "the second works")
