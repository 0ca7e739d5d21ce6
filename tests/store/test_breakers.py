"""Open breakers keep READY nodes from being claimed; released ones let them through, never more than their rate."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.breakers import Breaker
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.work import Claim
from qtg_dagster.store.backlog import Backlogs
from qtg_dagster.store.breakers import lock_breakers, standing_breakers, write_close, write_open, write_release
from qtg_dagster.store.claims import Claims
from qtg_dagster.store.database import Database
from qtg_dagster.store.nonces import NonceLedger
from qtg_dagster.store.runners import Runner
from tests.store.conftest import Seed

CEX, ALL = "lane:cex", "network:sandbox"


class Bench:
    """Nodes under scopes, breakers on them, and the time that passes for turns."""

    def __init__(self, database: Database, seed: Seed, runner: Runner) -> None:
        self.database, self.seed, self.runner = database, seed, runner

    async def nodes(self, many: int, *scopes: str, age: float = 0, keys: str | None = None) -> list[str]:
        """READY nodes, one movement each, all as old as `age` seconds, in the order of their ids."""
        found = [(await self.seed.movement(keys, age_seconds=age))[0] for _ in range(many)]
        await self.seed.sql(
            "UPDATE qtg.movement_request_nodes SET scopes = :s WHERE id::text = ANY(:ids)", s=list(scopes), ids=found
        )
        return sorted(found)

    async def open(self, scope: str) -> None:
        async with self.database.transaction() as tx:
            await lock_breakers(tx, "sandbox")
            await write_open(tx, "sandbox", scope, actor="grace", reason="venue down")

    async def release(self, scope: str, per_minute: int) -> None:
        async with self.database.transaction() as tx:
            breaker = (await lock_breakers(tx, "sandbox"))[scope]
            await write_release(tx, breaker, per_minute=per_minute, actor="ada")

    async def close(self, scope: str) -> None:
        async with self.database.transaction() as tx:
            await write_close(tx, (await lock_breakers(tx, "sandbox"))[scope], actor="ada", reason="it is back")

    async def standing(self) -> dict[str, Breaker]:
        async with self.database.transaction() as tx:
            return {each.scope: each for each in await standing_breakers(tx, "sandbox")}

    async def claim(self, batch: int = 50) -> list[str]:
        """Node ids that a drain gets which has just begun: it looks at turns at once."""
        return sorted(claim.node_id for claim in await Claims(self.database).claim_ready(self.runner, batch))

    async def pass_time(self, seconds: float) -> None:
        await self.seed.sql(
            "UPDATE qtg.breakers SET next_start_at = next_start_at - make_interval(secs => :s)", s=seconds
        )

    async def waiting(self, horizon: float = 0) -> int:
        return (await Backlogs(self.database).count_backlog("sandbox", horizon_seconds=horizon)).dispatch


@pytest.fixture
def bench(database: Database, seed: Seed, runner: Runner) -> Bench:
    return Bench(database, seed, runner)


async def test_an_open_breaker_holds_back_what_it_covers_and_nothing_else(bench: Bench) -> None:
    held = await bench.nodes(3, CEX, ALL, age=60)
    free = await bench.nodes(2, "lane:evm", ALL)
    assert await bench.waiting() == 5
    await bench.open(CEX)
    assert await bench.waiting() == 2
    assert (await bench.standing())[CEX].held == 3
    assert await bench.claim() == free
    await bench.close(CEX)
    assert await bench.standing() == {}
    assert await bench.claim() == held


async def test_a_breaker_of_another_network_class_holds_back_nobody(bench: Bench) -> None:
    nodes = await bench.nodes(1, CEX, ALL)
    async with bench.database.transaction() as tx:
        await write_open(tx, "mainnet", CEX, actor="grace", reason="venue down")
    assert await bench.waiting() == 1
    assert await bench.claim() == nodes


async def test_many_that_are_held_back_do_not_hide_the_others(bench: Bench) -> None:
    """The first look takes only so many candidates: those that are held back must not be among them."""
    await bench.nodes(25, CEX, age=60)
    free = await bench.nodes(1, "lane:evm")
    await bench.open(CEX)
    assert await bench.claim(batch=1) == free


async def test_a_key_that_a_dead_runner_left_on_a_node_that_is_held_back_is_freed(bench: Bench) -> None:
    [held] = await bench.nodes(1, CEX, age=60, keys="sender")
    [free] = await bench.nodes(1, "lane:evm", keys="sender")
    await bench.seed.sql(
        "UPDATE qtg.movement_request_nodes SET runner_id = 0, in_flight_key = 'sender' WHERE id::text = :id", id=held
    )
    await bench.open(CEX)
    assert await bench.claim() == []
    assert await bench.claim() == [free]


async def test_a_release_lets_one_through_at_once_and_the_next_in_its_turn(bench: Bench) -> None:
    oldest = await bench.nodes(1, CEX, age=60)
    await bench.nodes(5, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 1)
    assert await bench.claim() == oldest
    assert await bench.claim() == []
    await bench.pass_time(59)
    assert await bench.claim() == []
    await bench.pass_time(2)
    assert len(await bench.claim()) == 1
    breaker = (await bench.standing())[CEX]
    assert (breaker.let_through, breaker.held, breaker.per_minute) == (2, 4, 1)


async def test_turns_that_nobody_used_do_not_add_up(bench: Bench) -> None:
    await bench.nodes(20, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 240)
    await bench.pass_time(3600)
    assert len(await bench.claim()) == 4, "one, and those of the second that is made up for"


async def test_drains_that_look_at_the_same_moment_share_one_turn(
    bench: Bench, runner: Runner, other_runner: Runner
) -> None:
    await bench.nodes(20, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 1)
    for turn in range(1, 4):
        looks = [Claims(bench.database).claim_ready(who, 20) for who in (runner, other_runner) * 4]
        taken: list[list[Claim]] = await asyncio.gather(*looks)
        assert sum(len(claims) for claims in taken) == 1
        assert (await bench.standing())[CEX].let_through == turn
        await bench.pass_time(61)


async def test_a_drain_sees_the_turn_that_another_is_taking(bench: Bench) -> None:
    await bench.nodes(2, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 1)
    async with bench.database.transaction() as other:
        await other.exec_driver_sql("UPDATE qtg.breakers SET next_start_at = now() + interval '1 minute'")
        claiming = asyncio.create_task(bench.claim())
        while not await bench.seed.rows("SELECT 1 FROM pg_locks WHERE NOT granted"):
            assert not claiming.done()
    assert await claiming == []


async def test_a_node_under_two_breakers_needs_a_turn_from_each(bench: Bench) -> None:
    both = await bench.nodes(3, CEX, ALL, age=60)
    other = await bench.nodes(1, "lane:evm", ALL)
    await bench.open(CEX)
    await bench.open(ALL)
    await bench.release(ALL, 1)
    assert await bench.claim() == other, "what another breaker holds back takes nobody's turn"
    await bench.release(CEX, 1)
    assert await bench.claim() == [], "the other's turn is taken"
    await bench.pass_time(61)
    [first] = await bench.claim()
    assert first in both
    assert {each.scope: each.let_through for each in (await bench.standing()).values()} == {CEX: 1, ALL: 2}


async def test_whoever_was_let_through_keeps_the_leave_for_ten_minutes(bench: Bench) -> None:
    await bench.nodes(1, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 1)
    [node] = await bench.claim()
    await bench.seed.sql("UPDATE qtg.movement_request_nodes SET runner_id = NULL")
    assert await bench.claim() == [node], "a node that was put off need not wait for another turn"
    await bench.seed.sql("UPDATE qtg.movement_request_nodes SET runner_id = NULL")
    await bench.seed.sql("UPDATE qtg.breaker_starts SET started_at = now() - interval '11 minutes'")
    assert await bench.claim() == []
    assert await bench.seed.rows("SELECT 1 FROM qtg.breaker_starts") == []


async def test_what_waits_for_its_turn_is_work_only_when_the_turn_comes(bench: Bench) -> None:
    await bench.nodes(3, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 1)
    await bench.claim()
    assert await bench.waiting(horizon=15) == 1, "the one that was let through"
    await bench.pass_time(50)
    assert await bench.waiting(horizon=5) == 1
    assert await bench.waiting(horizon=15) == 3


async def test_closing_forgets_the_leaves_and_keeps_the_history(bench: Bench) -> None:
    await bench.nodes(2, CEX)
    await bench.open(CEX)
    await bench.release(CEX, 1)
    await bench.claim()
    await bench.close(CEX)
    assert await bench.seed.rows("SELECT 1 FROM qtg.breaker_starts") == []
    [row] = await bench.seed.rows("SELECT * FROM qtg.breakers")
    assert (row["opened_by"], row["released_by"], row["closed_by"], row["let_through"]) == ("grace", "ada", "ada", 1)
    await bench.open(CEX)
    assert await bench.claim() == [], "a new breaker holds back whom the last one let through"


async def test_who_cannot_lock_the_breakers_gives_up_and_lets_intents_pass(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qtg_dagster.store.breakers._PATIENCE_SECONDS", 0.05)
    async with bench.database.transaction() as tx:
        await lock_breakers(tx, "sandbox")
        with pytest.raises(Conflict, match="nothing was changed, try again"):
            await bench.open(CEX)
    await bench.open(CEX)


async def test_nothing_is_sent_above_the_nonce_of_a_node_that_is_held_back(bench: Bench) -> None:
    [held] = await bench.nodes(1, CEX)
    [free] = await bench.nodes(1, "lane:evm")

    async def reserve(node: str) -> int:
        return await NonceLedger(bench.database).reserve(
            chain="eip155:1", sender="0xab", request_node_id=node, attempt_no=1, chain_nonce=0
        )

    assert await reserve(held) == 0
    await bench.open(CEX)
    with pytest.raises(Conflict, match="which a breaker holds back"):
        await reserve(free)
    await bench.close(CEX)
    assert await reserve(free) == 1
