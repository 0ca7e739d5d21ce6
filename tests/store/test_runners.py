"""Whoever holds the session lock is alive, and nobody else; a pooler is refused."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import ConfigurationError, StaleClaim
from qtg_dagster.domain.work import Intent
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.runners import Runner
from qtg_dagster.store.slots import slot_state
from tests.postgres_proxy import PostgresProxy
from tests.store.conftest import Seed

#: Claims, says so, waits for a line, then tries to record a late observation and says what came of it.
WORKER = """
import asyncio, sys
from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import Database
from qtg_dagster.domain.work import Move
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.postgres import PostgresStore

async def main():
    store = PostgresStore(Database(sys.argv[1], pool_size=2))
    async with store.runner(RunnerIdentity("observe", "sandbox")) as runner:
        claims = []
        while len(claims) < int(sys.argv[2]):  # a round skips what another is just claiming
            claims += await store.claim_due_observations(runner, int(sys.argv[2]) - len(claims))
        works = await store.load_works(claims)
        print("claimed", runner.connection.info.backend_pid, *(claim.node_id for claim in claims), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for work in works:
            [found] = await store.record_moves([(work, Move(NodeState.COMPLETED, StepKind.OBSERVED, {"late": "yes"}))])
            print("fenced" if isinstance(found, StaleClaim) else "recorded", flush=True)

asyncio.run(main())
"""

Spawn = Callable[[int], Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def spawn(database_url: str) -> AsyncIterator[Spawn]:
    """Start a process that claims up to so many observations."""
    running: list[asyncio.subprocess.Process] = []

    async def start(batch: int) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, database_url, str(batch), stdin=pipe, stdout=pipe
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process) -> list[str]:
    """The next line of the process, in words."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()


async def until_claimed(store: PostgresStore, runner: Runner, batch: int) -> int:
    for _ in range(1000):
        claims = await store.claim_due_observations(runner, batch)
        if claims:
            return len(claims)
        await asyncio.sleep(0.01)
    raise AssertionError("nothing became claimable")


async def test_two_processes_never_share_a_node_and_a_killed_ones_nodes_are_free(
    store: PostgresStore, seed: Seed, runner: Runner, spawn: Spawn
) -> None:
    nodes = await seed.movement(*[None] * 10, state="SUBMITTED")
    first, second = await asyncio.gather(spawn(5), spawn(5))
    claimed = [(await said(process))[2:] for process in (first, second)]
    assert sorted(claimed[0] + claimed[1]) == sorted(nodes)
    assert await store.claim_due_observations(runner, 10) == []
    first.kill()
    assert await until_claimed(store, runner, 10) == 5
    assert await store.claim_due_observations(runner, 10) == []


async def test_a_runner_that_wakes_up_after_its_session_was_cut_is_fenced_and_journaled(
    store: PostgresStore, seed: Seed, runner: Runner, spawn: Spawn
) -> None:
    [node] = await seed.movement(None, state="SUBMITTED")
    sleeper = await spawn(1)
    [_, backend, claimed] = await said(sleeper)
    assert claimed == node
    os.kill(sleeper.pid, signal.SIGSTOP)
    await seed.sql("SELECT pg_terminate_backend(:pid, 5000)", pid=int(backend))
    assert await until_claimed(store, runner, 1) == 1
    os.kill(sleeper.pid, signal.SIGCONT)
    assert sleeper.stdin is not None
    sleeper.stdin.write(b"go on\n")
    assert await said(sleeper) == ["fenced"]
    row = await seed.node(node)
    assert (row["node_state"], row["runner_id"]) == ("SUBMITTED", runner.runner_id)
    [step] = await seed.rows("SELECT * FROM qtg.movement_node_steps")
    assert (step["step_kind"], step["to_state"]) == ("fenced", None)
    assert step["facts"] == {"would_be": "COMPLETED", "facts": {"late": "yes"}}
    assert step["claim_epoch"] < row["claim_epoch"]


async def test_an_intent_by_a_stale_claim_changes_nothing(
    store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    [node] = await seed.movement(None)
    [claim] = await store.claim_ready(runner, 1)
    work = (await store.load_works([claim]))[0]
    await seed.sql("UPDATE qtg.movement_request_nodes SET claim_epoch = claim_epoch + 1, runner_id = :r", r=other_runner.runner_id)  # fmt: skip  # noqa: E501
    prepared = PreparedAction.of(action_type="move", payload_format="x", payload="{}")
    with pytest.raises(StaleClaim):
        await store.record_intent(work, Intent(prepared, 1, "k" * 32))
    assert (await seed.node(node))["node_state"] == "READY"
    assert await seed.rows("SELECT 1 FROM qtg.movement_node_attempts") == []


async def test_a_live_runner_knows_that_it_lives_and_a_cut_one_that_it_does_not(database: Database, seed: Seed) -> None:
    async with Runner(database, RunnerIdentity("dispatch", "sandbox")) as cut:
        await cut.check_alive()
        await seed.sql("SELECT pg_terminate_backend(:pid, 5000)", pid=cut.connection.info.backend_pid)
        with pytest.raises(StaleClaim, match="lost the session"):
            await cut.check_alive()
        with pytest.raises(StaleClaim, match="lost the session"):
            _ = cut.connection


async def test_a_pooler_is_refused_with_the_reason(database_url: str) -> None:
    async with PostgresProxy(database_url, pretend_pooler=True) as proxy:
        database = Database(proxy.url)
        with pytest.raises(ConfigurationError, match="connection pooler"):
            await database.direct_connection()
        with pytest.raises(ConfigurationError, match="connection pooler"):
            await Runner(database, RunnerIdentity("dispatch", "sandbox")).__aenter__()
        await database.close()


async def test_a_plain_proxy_is_no_pooler(database_url: str) -> None:
    async with PostgresProxy(database_url) as proxy:
        database = Database(proxy.url)
        async with Runner(database, RunnerIdentity("dispatch", "sandbox")) as runner:
            await runner.check_alive()
        await database.close()


def test_no_database_is_a_setting_that_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="DATABASE_URL"):
        Database("")


async def test_a_slot_has_one_holder_and_shows_who_waits(
    database: Database, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    state = await slot_state(database, "dispatch", "sandbox")
    assert (state.held, state.waiters) == (False, 0)
    await runner.take_slot(60)
    assert (await slot_state(database, "dispatch", "sandbox")).held
    assert not await runner.successor_waits()
    waiting = asyncio.create_task(other_runner.take_slot(60))
    for _ in range(500):
        if await runner.successor_waits():
            break
        await asyncio.sleep(0.01)
    state = await slot_state(database, "dispatch", "sandbox")
    assert (state.held, state.waiters) == (True, 1)
    assert state.youngest_age_seconds is not None
    assert not (await slot_state(database, "observe", "sandbox")).held
    assert not (await slot_state(database, "dispatch", "mainnet")).held
    await seed.sql("SELECT pg_terminate_backend(:pid, 5000)", pid=runner.connection.info.backend_pid)
    await asyncio.wait_for(waiting, 20)
    assert (await slot_state(database, "dispatch", "sandbox")).waiters == 0


async def test_a_holder_that_hangs_keeps_its_lock_and_its_claims_but_not_the_slot(
    database: Database, runner: Runner, other_runner: Runner
) -> None:
    await runner.take_slot(60)
    waiting = asyncio.create_task(other_runner.take_slot(0.5))
    await asyncio.wait_for(waiting, 20)
    state = await slot_state(database, "dispatch", "sandbox", overdue_seconds=60)
    assert (state.held, state.waiters) == (True, 0)
    await runner.check_alive()
    assert not await other_runner.successor_waits()
    async with Runner(database, RunnerIdentity("dispatch", "sandbox")) as third:
        next_in_line = asyncio.create_task(third.take_slot(60))
        for _ in range(500):
            if await runner.successor_waits():
                break
            await asyncio.sleep(0.01)
        assert await runner.successor_waits(), "one that goes its rounds again hands over as always"
        next_in_line.cancel()
        await asyncio.gather(next_in_line, return_exceptions=True)


async def test_a_slot_whose_holder_hangs_is_shown_as_free_with_its_run(database: Database) -> None:
    async with Runner(database, RunnerIdentity("dispatch", "sandbox", "a-run")) as runner:
        await runner.take_slot(60)
        held = await slot_state(database, "dispatch", "sandbox", overdue_seconds=60)
        assert (held.held, held.hung_runs) == (True, frozenset())
        hung = await slot_state(database, "dispatch", "sandbox", overdue_seconds=0)
        assert (hung.held, hung.hung_runs, hung.youngest_age_seconds) == (False, frozenset({"a-run"}), None)


async def test_slots_of_a_kind_are_held_side_by_side(database: Database, runner: Runner) -> None:
    await runner.take_slot(60)
    async with Runner(database, RunnerIdentity("dispatch", "sandbox", slot=1)) as second:
        await asyncio.wait_for(second.take_slot(60), 20)
        for slot in (0, 1):
            state = await slot_state(database, "dispatch", "sandbox", slot)
            assert (state.held, state.waiters) == (True, 0)
            assert state.youngest_age_seconds is not None
    assert not (await slot_state(database, "dispatch", "sandbox", 1)).held
    assert (await slot_state(database, "dispatch", "sandbox")).held
