"""Claims: one holder each, first come first served, free at once when the holder is gone."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.work import RECOVERY_ARMS, Claim
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.runners import Runner
from tests.store.conftest import Seed


def ids(claims: list[Claim]) -> list[str]:
    return [claim.node_id for claim in claims]


async def test_two_runners_never_share_a_node(
    store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    nodes = await seed.movement(*[None] * 40)
    rounds = await asyncio.gather(*(store.claim_ready(who, 7) for who in (runner, other_runner) * 6))
    taken = [node for claims in rounds for node in ids(claims)]
    while left := await store.claim_ready(runner, 7):
        taken += ids(left)
    assert sorted(taken) == sorted(nodes)


async def test_the_oldest_movement_comes_first(store: PostgresStore, seed: Seed, runner: Runner) -> None:
    ages = {30.0: "", 50.0: "", 40.0: ""}
    for age in ages:
        [ages[age]] = await seed.movement(None, age_seconds=age)
    order = [ids(await store.claim_ready(runner, 1))[0] for _ in ages]
    assert order == [ages[50.0], ages[40.0], ages[30.0]]


async def test_a_claim_is_kept_from_everybody_while_its_holder_lives(
    store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    await seed.movement(None)
    [claim] = await store.claim_ready(runner, 5)
    assert await store.claim_ready(other_runner, 5) == []
    assert await store.claim_ready(runner, 5) == []
    row = await seed.node(claim.node_id)
    assert (row["runner_id"], row["claim_epoch"]) == (runner.runner_id, claim.claim_epoch)


async def test_a_released_node_is_free_and_its_old_epoch_is_worth_nothing(
    store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    await seed.movement("k")
    [first] = await store.claim_ready(runner, 1)
    await store.release([first])
    [second] = await store.claim_ready(other_runner, 1)
    assert second.claim_epoch == first.claim_epoch + 1
    await store.release([first])
    row = await seed.node(first.node_id)
    assert (row["runner_id"], row["in_flight_key"]) == (other_runner.runner_id, "k")


async def test_a_node_given_back_for_later_is_left_alone_until_then(
    store: PostgresStore, seed: Seed, runner: Runner
) -> None:
    await seed.movement(None)
    await store.release(await store.claim_ready(runner, 1), delay_seconds=60)
    assert await store.claim_ready(runner, 1) == []
    await seed.sql("UPDATE qtg.movement_request_nodes SET next_look_at = now()")
    assert len(await store.claim_ready(runner, 1)) == 1


async def test_a_runner_that_ends_frees_its_claims_at_once(store: PostgresStore, seed: Seed, runner: Runner) -> None:
    await seed.movement(None, None)
    async with store.runner(RunnerIdentity("dispatch", "sandbox")) as gone:
        assert len(await store.claim_ready(gone, 2)) == 2
        assert await store.claim_ready(runner, 2) == []
    assert len(await store.claim_ready(runner, 2)) == 2
    [row] = await seed.rows("SELECT end_reason FROM qtg.runners WHERE id = :id", id=gone.runner_id)
    assert row["end_reason"] == "finished"


async def test_a_runner_whose_session_was_cut_frees_its_claims_at_once(
    store: PostgresStore, seed: Seed, runner: Runner
) -> None:
    await seed.movement(None)
    async with store.runner(RunnerIdentity("dispatch", "sandbox")) as cut:
        await store.claim_ready(cut, 1)
        pid = cut.connection.info.backend_pid
        await seed.sql("SELECT pg_terminate_backend(:pid, 5000)", pid=pid)
        assert len(await store.claim_ready(runner, 1)) == 1


async def test_one_node_a_key_and_the_other_keys_beside_it(store: PostgresStore, seed: Seed, runner: Runner) -> None:
    a1, b1, a2, free, b2 = await seed.movement("a", "b", "a", None, "b")
    taken = ids(await store.claim_ready(runner, 10))
    assert free in taken
    assert len(taken) == 3
    assert len({a1, a2} & set(taken)) == len({b1, b2} & set(taken)) == 1
    assert await store.claim_ready(runner, 10) == []


async def test_within_a_key_the_oldest_goes_first(store: PostgresStore, seed: Seed, runner: Runner) -> None:
    [young] = await seed.movement("k", age_seconds=1)
    [old] = await seed.movement("k", age_seconds=60)
    first = await store.claim_ready(runner, 5)
    assert ids(first) == [old]
    await seed.sql("UPDATE qtg.movement_request_nodes SET node_state = 'CANCELLED', in_flight_key = NULL WHERE id::text = :id", id=old)  # fmt: skip  # noqa: E501
    assert ids(await store.claim_ready(runner, 5)) == [young]


async def test_many_that_race_for_one_key_leave_one_in_flight(
    store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    """Two statements that do not see each other both pick; the unique index lets one of them through."""
    for number in range(12):
        await seed.movement("k", age_seconds=number)
    rounds = await asyncio.gather(*(store.claim_ready(who, 3) for who in (runner, other_runner) * 5))
    assert sum(len(claims) for claims in rounds) == 1
    [row] = await seed.rows("SELECT count(in_flight_key) AS n FROM qtg.movement_request_nodes")
    assert row["n"] == 1


async def test_losing_the_race_on_the_index_is_an_empty_round_not_an_error(
    database: Database, store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    [old] = await seed.movement("k", age_seconds=60)
    await seed.movement("k")
    async with database.transaction() as slow:
        from sqlalchemy import text

        taken = "UPDATE qtg.movement_request_nodes SET in_flight_key = 'k', runner_id = :r WHERE id::text = :id"
        await slow.execute(text(taken), {"r": runner.runner_id, "id": old})
        await slow.execute(text("UPDATE qtg.movement_request_nodes SET node_state = 'CANCELLED' WHERE false"))
        # The old node is row-locked, so it is skipped; nobody else of its key may overtake it.
        assert await store.claim_ready(other_runner, 5) == []


@pytest.mark.parametrize("request_state", ["WAITING_MANUAL_ACTION", "MANUAL_INTERVENTION", "FAILED", "CANCELLED"])
async def test_only_movements_that_go_on_are_worked(
    store: PostgresStore, seed: Seed, runner: Runner, request_state: str
) -> None:
    await seed.movement(None)
    await seed.movement(None, state="SUBMITTED")
    await seed.movement(None, state="UNKNOWN")
    await seed.sql("UPDATE qtg.movement_requests SET request_state = :s", s=request_state)
    assert await store.claim_ready(runner, 5) == []
    assert await store.claim_due_observations(runner, 5) == []
    assert await store.claim_recoverable(runner, RECOVERY_ARMS[-1], 5, graces={}, default_grace=0) == []


async def test_another_network_class_is_not_touched(store: PostgresStore, seed: Seed) -> None:
    await seed.movement(None)
    async with store.runner(RunnerIdentity("dispatch", "mainnet")) as stranger:
        assert await store.claim_ready(stranger, 5) == []


async def test_only_what_is_due_is_observed(store: PostgresStore, seed: Seed, runner: Runner) -> None:
    due, later = await seed.movement(None, None, state="SUBMITTED")
    await seed.sql("UPDATE qtg.movement_request_nodes SET next_look_at = now() + interval '1 h' WHERE id::text = :id", id=later)  # fmt: skip  # noqa: E501
    assert ids(await store.claim_due_observations(runner, 5)) == [due]


async def test_a_submit_in_progress_is_left_alone_while_its_runner_lives_and_for_its_grace(
    store: PostgresStore, seed: Seed, runner: Runner, other_runner: Runner
) -> None:
    [node] = await seed.movement(None)
    await store.claim_ready(runner, 1)
    await seed.sql("UPDATE qtg.movement_request_nodes SET node_state = 'SUBMITTING'")
    arm = RECOVERY_ARMS[-1]
    assert await store.claim_recoverable(other_runner, arm, 5, graces={}, default_grace=0) == []
    await seed.sql("UPDATE qtg.movement_request_nodes SET runner_id = 999999")
    graces = {"exec.local.move": 3600.0}
    assert await store.claim_recoverable(other_runner, arm, 5, graces=graces, default_grace=0) == []
    assert ids(await store.claim_recoverable(other_runner, arm, 5, graces={}, default_grace=0)) == [node]


async def test_each_arm_takes_its_own_lane_longest_untouched_first(
    store: PostgresStore, seed: Seed, runner: Runner
) -> None:
    lanes = {lane: await seed.movement(None, None, state="UNKNOWN", executor=f"exec.{lane}.send")
             for lane in ("cex", "evm", "ccip", "stargate")}  # fmt: skip
    taken = {}
    for arm in RECOVERY_ARMS:
        taken[arm.name] = ids(await store.claim_recoverable(runner, arm, 5, graces={}, default_grace=0))
    assert [arm.name for arm in RECOVERY_ARMS] == ["ccip", "stargate", "cex", "rest"]
    assert {name: set(nodes) for name, nodes in taken.items()} == {
        "ccip": set(lanes["ccip"]),
        "stargate": set(lanes["stargate"]),
        "cex": set(lanes["cex"]),
        "rest": set(lanes["evm"]),
    }


async def test_the_longest_untouched_is_recovered_first(store: PostgresStore, seed: Seed, runner: Runner) -> None:
    first, second = await seed.movement(None, None, state="UNKNOWN")
    await seed.sql("UPDATE qtg.movement_request_nodes SET looks = 1 WHERE id::text = :id", id=first)
    got = await store.claim_recoverable(runner, RECOVERY_ARMS[-1], 1, graces={}, default_grace=0)
    assert ids(got) == [second]
