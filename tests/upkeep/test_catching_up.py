"""After downtime missed windows are made up for, a few a cycle, and none twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from qtg_dagster.engine.parts import Engine
from qtg_dagster.upkeep.catching_up import MOST_MISSED, CaughtUp, serve_and_catch_up
from qtg_dagster.upkeep.cycles import PassResult, cycle_key, serve_cycle

HOUR = 3600
FIRST = datetime(2026, 3, 1, 23, tzinfo=UTC)


class Rollup:
    """Notes which windows it was given."""

    def __init__(self) -> None:
        self.seen: list[datetime] = []
        self.fails_at: datetime | None = None

    async def __call__(self, window: datetime) -> PassResult:
        if window == self.fails_at:
            raise ConnectionError("the source is gone")
        self.seen.append(window)
        return PassResult(1)


def hours(*numbers: int) -> list[datetime]:
    return [FIRST + timedelta(hours=number) for number in numbers]


async def cycle(engine: Engine, hour: int, work: Rollup) -> CaughtUp:
    return await serve_and_catch_up(engine, "rollup", *hours(hour), HOUR, work)


async def test_the_first_cycle_of_all_has_missed_nothing(engine: Engine) -> None:
    work = Rollup()
    assert await cycle(engine, 0, work) == CaughtUp((cycle_key(FIRST),), 0, None)
    assert work.seen == hours(0)


async def test_a_short_downtime_is_made_up_for_at_once_with_the_new_window_first(engine: Engine) -> None:
    work = Rollup()
    await cycle(engine, 0, work)
    done = await cycle(engine, 4, work)
    assert work.seen == hours(0, 4, 1, 2, 3)
    assert done.left == 0


async def test_a_long_downtime_drains_oldest_first_in_bounded_steps_and_the_rest_is_told(engine: Engine) -> None:
    work = Rollup()
    await cycle(engine, 0, work)
    done = await cycle(engine, 100, work)
    assert work.seen == hours(0, 100, *range(1, MOST_MISSED + 1))
    assert (done.left, done.oldest_left) == (99 - MOST_MISSED, cycle_key(hours(MOST_MISSED + 1)[0]))
    assert done.metadata()["missed and left"] == 75
    left = [(await cycle(engine, 101 + number, work)).left for number in range(4)]
    assert left == [51, 27, 3, 0]
    assert sorted(work.seen) == hours(*range(105))


async def test_a_pass_by_hand_is_no_window(engine: Engine) -> None:
    work = Rollup()

    async def by_hand() -> PassResult:
        return PassResult(1)

    await serve_cycle(engine, "rollup", "by hand in run 1234", by_hand)
    assert (await cycle(engine, 7, work)).left == 0
    assert work.seen == hours(7)


async def test_what_fails_is_raised_and_the_windows_behind_it_are_found_by_the_next_cycle(engine: Engine) -> None:
    work = Rollup()
    await cycle(engine, 0, work)
    work.fails_at = hours(2)[0]
    with pytest.raises(ConnectionError):
        await cycle(engine, 5, work)
    work.fails_at = None
    await cycle(engine, 6, work)
    assert sorted(work.seen) == hours(0, 1, 3, 4, 5, 6), "the window that failed was served, and not twice"


async def test_many_daemons_that_catch_up_at_once_serve_each_window_once(engine: Engine) -> None:
    work = Rollup()
    await cycle(engine, 0, work)
    await asyncio.gather(*(cycle(engine, 20, work) for _ in range(5)))
    assert sorted(work.seen) == hours(*range(21))


async def test_another_workers_windows_are_its_own(engine: Engine) -> None:
    work = Rollup()
    await cycle(engine, 0, work)
    async with engine.database.transaction() as transaction:
        other = "INSERT INTO qtg.cycles (network_class, worker, cycle_key) VALUES ('sandbox', 'other', :key)"
        await transaction.execute(text(other), {"key": cycle_key(hours(1)[0])})
    await cycle(engine, 2, work)
    assert work.seen == hours(0, 2, 1)
