"""What every store promises of claims."""

from __future__ import annotations

from qtg_dagster.domain.work import RECOVERY_ARMS
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.engine.requests import cancel_movement
from tests.engine.plans import chain, manual, node, plan_of
from tests.store.contract.conftest import DEFERRED, FAILED, IDENTITY, UNKNOWN, Bench, ids

ONE = plan_of(node("first"))
FORK = plan_of(node("left"), node("right"), key="fork")
KEYED = plan_of(node("a", executor="exec.local.keyed"), node("b", executor="exec.local.keyed"), key="keyed")
REST = RECOVERY_ARMS[-1]


async def test_a_claim_is_kept_from_all_while_its_holder_lives(bench: Bench) -> None:
    await bench.begin(FORK)
    claims = await bench.store.claim_ready(bench.one, 9)
    assert len(claims) == 2
    assert {claim.runner_id for claim in claims} == {bench.one.runner_id}
    assert await bench.store.claim_ready(bench.two, 9) == []
    assert await bench.store.claim_ready(bench.one, 9) == []


async def test_the_nodes_of_a_runner_that_is_gone_are_free_under_a_new_epoch(bench: Bench) -> None:
    await bench.begin(ONE)
    async with bench.store.runner(IDENTITY) as gone:
        [before] = await bench.store.claim_ready(gone, 9)
        bench.ground.cut(gone)
        [after] = await bench.store.claim_ready(bench.two, 9)
    assert (after.node_id, after.runner_id) == (before.node_id, bench.two.runner_id)
    assert after.claim_epoch > before.claim_epoch


async def test_the_oldest_movement_comes_first_and_a_batch_is_a_bound(bench: Bench) -> None:
    movements = [await bench.begin(plan_of(node("first"), key=f"t{n}")) for n in range(3)]
    order = [(await bench.store.claim_ready(bench.one, 1))[0].request_id for _ in movements]
    assert order == movements


async def test_one_node_a_key_is_claimed_and_the_next_one_when_it_is_given_back(bench: Bench) -> None:
    await bench.begin(KEYED)
    [first] = await bench.store.claim_ready(bench.one, 9)
    assert await bench.store.claim_ready(bench.two, 9) == []
    await bench.store.release([first])
    assert len(await bench.store.claim_ready(bench.two, 9)) == 1


async def test_a_key_is_kept_while_the_outcome_is_unknown(bench: Bench) -> None:
    await bench.begin(KEYED)
    [work] = await bench.ready()
    await bench.write(await bench.intend(work), UNKNOWN)
    assert await bench.store.claim_ready(bench.two, 9) == []


async def test_what_was_put_off_comes_back_when_it_is_due(bench: Bench) -> None:
    await bench.begin(ONE)
    [work] = await bench.ready()
    await bench.write(work, DEFERRED)
    assert await bench.store.claim_ready(bench.two, 9) == []
    bench.ground.advance(61)
    [claim] = await bench.store.claim_ready(bench.two, 9)
    await bench.store.release([claim], delay_seconds=60)
    assert await bench.store.claim_ready(bench.one, 9) == []
    bench.ground.advance(61)
    assert ids(await bench.store.claim_ready(bench.one, 9)) == [claim.node_id]


async def test_a_stale_claim_gives_nothing_back(bench: Bench) -> None:
    await bench.begin(ONE)
    [stale] = await bench.store.claim_ready(bench.one, 9)
    await bench.store.release([stale])
    await bench.store.claim_ready(bench.two, 9)
    await bench.store.release([stale])
    assert await bench.store.claim_ready(bench.one, 9) == []


async def test_what_a_runner_has_forgotten_is_given_back_and_what_it_works_on_is_not(bench: Bench) -> None:
    await bench.begin(FORK)
    worked, forgotten = await bench.store.claim_ready(bench.one, 9)
    assert await bench.store.release_forgotten(bench.one.runner_id, {worked.node_id}) == 1
    [again] = await bench.store.claim_ready(bench.two, 9)
    assert again.node_id == forgotten.node_id
    assert again.claim_epoch > forgotten.claim_epoch + 1, "the forgotten claim is worth nothing"


async def test_a_failed_sibling_lets_nothing_begin_until_it_is_retried(bench: Bench) -> None:
    request_id = await bench.begin(FORK)
    [left] = await bench.ready(batch=1)
    await bench.write(left, FAILED)
    assert await bench.store.claim_ready(bench.two, 9) == []
    await retry_node(bench.engine, request_id, left.node.node_key, actor="heidi", reason="again")
    assert len(await bench.store.claim_ready(bench.two, 9)) == 2


async def test_manual_blocked_and_cancelled_nodes_are_nobodys(bench: Bench) -> None:
    await bench.begin(plan_of(manual("manual_step"), node("later"), edges=(("manual_step", "later"),), key="manual"))
    called_off = await bench.begin(ONE)
    await cancel_movement(bench.engine, called_off, actor="heidi", reason="stop")
    assert await bench.store.claim_ready(bench.one, 9) == []


async def test_strangers_of_another_network_class_find_nothing(bench: Bench) -> None:
    await bench.begin(ONE)
    async with bench.store.runner(type(IDENTITY)("dispatch", "mainnet")) as stranger:
        assert await bench.store.claim_ready(stranger, 9) == []
    assert (await bench.store.count_backlog("mainnet")).dispatch == 0


async def test_only_what_was_submitted_is_observed_and_only_when_due(bench: Bench) -> None:
    await bench.begin(chain())
    _, works = await bench.submitted(ONE)
    claims = await bench.store.claim_due_observations(bench.one, 9)
    assert set(ids(claims)) == {work.claim.node_id for work in works}
    assert await bench.store.claim_due_observations(bench.two, 9) == []


async def test_recovery_finds_what_is_unknown_and_what_was_left_in_submitting_past_its_grace(bench: Bench) -> None:
    await bench.begin(FORK)
    lost, left = [await bench.intend(work) for work in await bench.ready()]
    await bench.write(lost, UNKNOWN)
    bench.ground.cut(bench.one)
    assert ids(await bench.store.claim_recoverable(bench.two, REST, 9, graces={}, default_grace=3600)) == [
        lost.claim.node_id
    ]
    graces = {"exec.local.move": 0.0}
    claims = await bench.store.claim_recoverable(bench.two, REST, 9, graces=graces, default_grace=3600)
    assert ids(claims) == [left.claim.node_id]


async def test_recovery_leaves_a_live_submit_alone(bench: Bench) -> None:
    await bench.begin(ONE)
    [work] = await bench.ready()
    await bench.intend(work)
    assert await bench.store.claim_recoverable(bench.two, REST, 9, graces={}, default_grace=0) == []


async def test_each_arm_of_recovery_has_its_lanes(bench: Bench) -> None:
    await bench.begin(plan_of(node("venue", executor="exec.cex.send"), node("local"), key="lanes"))
    for work in await bench.ready():
        await bench.write(await bench.intend(work), UNKNOWN)
    found = {
        arm.name: len(await bench.store.claim_recoverable(bench.two, arm, 9, graces={}, default_grace=0))
        for arm in RECOVERY_ARMS
    }
    assert found == {"ccip": 0, "stargate": 0, "cex": 1, "rest": 1}


async def test_the_backlog_counts_what_waits_for_each_kind(bench: Bench) -> None:
    await bench.submitted(ONE)
    await bench.begin(FORK)
    [left] = await bench.ready(batch=1)
    await bench.write(await bench.intend(left), UNKNOWN)
    backlog = await bench.store.count_backlog("sandbox")
    assert (backlog.dispatch, backlog.observe, backlog.recover) == (1, 1, 1)
