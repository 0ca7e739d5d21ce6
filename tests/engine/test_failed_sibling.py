"""A movement in which a node has failed lets what is in flight settle, starts nothing new, and holds up nobody else."""

from __future__ import annotations

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.requests import cancel_movement
from tests.engine.desk import Desk
from tests.engine.plans import begin, node, plan_of, until


async def fail_one_while_another_is_in_flight(desk: Desk) -> None:
    """`sent` is on its way, `bad` has FAILED, `later` is READY, and nobody may say FAILED of the movement yet."""
    await desk.begin(plan_of(node("sent"), node("bad"), node("later")))
    desk.will("preflight", "later", ResultStatus.NOT_SENT)
    desk.will("submit", "bad", ResultStatus.REJECTED)
    desk.provider.during("submit", "bad", lambda: until_state(desk, "sent", "SUBMITTED"))
    assert await desk.dispatch(3) == 3
    assert await desk.states() == {"sent": "SUBMITTED", "bad": "FAILED", "later": "READY"}
    assert await desk.request_state() == "EXECUTING"
    await desk.make_due()


async def until_state(desk: Desk, key: str, state: str) -> None:
    async def there() -> bool:
        return (await desk.states())[key] == state

    await until(there, f"{key} is {state}")


async def test_no_branch_begins_once_another_has_failed(desk: Desk) -> None:
    await fail_one_while_another_is_in_flight(desk)
    assert await desk.dispatch(3) == 0
    assert (await desk.engine.store.count_backlog("sandbox")).dispatch == 0
    await desk.observe()
    assert await desk.states() == {"sent": "COMPLETED", "bad": "FAILED", "later": "READY"}
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    assert desk.provider.count("submit", "later") == 0


async def test_a_branch_on_its_way_to_its_intent_is_stopped_by_anothers_failure(desk: Desk) -> None:
    await desk.begin(plan_of(node("sent"), node("bad"), node("later")))
    desk.will("submit", "bad", ResultStatus.REJECTED)
    desk.provider.during("submit", "bad", lambda: until_state(desk, "sent", "SUBMITTED"))
    desk.provider.during("preflight", "later", lambda: until_state(desk, "bad", "FAILED"))
    assert await desk.dispatch(3) == 3
    assert await desk.states() == {"sent": "SUBMITTED", "bad": "FAILED", "later": "READY"}
    assert desk.provider.count("submit", "later") == 0
    later = await desk.node("later")
    assert (later["attempt_no"], later["runner_id"]) == (0, None)


async def test_a_dead_runners_key_does_not_stay_with_a_node_that_nobody_claims(desk: Desk) -> None:
    """The runner dies between claim and intent, the movement is over: other movements need the key."""
    keyed = plan_of(node("bad"), node("first", executor="exec.local.keyed"), key="keyed")
    stopped = await desk.begin(keyed)
    desk.will("submit", "bad", ResultStatus.REJECTED)
    async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as dying:
        assert len(await desk.engine.store.claim_ready(dying, 2)) == 2
    await desk.sql(
        "UPDATE qtg.movement_request_nodes SET next_look_at = now() + interval '1 hour' WHERE node_key = 'first'"
    )
    await desk.dispatch()
    assert await desk.request_state() == "FAILED"
    await begin(desk.engine, plan_of(node("second", executor="exec.local.keyed"), key="other"))
    assert await desk.dispatch() == 0  # the pass that frees the key
    assert await desk.dispatch() == 1
    assert (await desk.states())["second"] == "SUBMITTED"
    await cancel_movement(desk.engine, stopped, actor="heidi", reason="over")


async def test_a_key_stays_with_a_live_runners_claim_whatever_became_of_its_movement(desk: Desk) -> None:
    await desk.begin(plan_of(node("bad"), node("first", executor="exec.local.keyed"), key="keyed"))
    desk.will("submit", "bad", ResultStatus.REJECTED)

    async def others_find_nothing() -> None:
        await until_state(desk, "bad", "FAILED")
        await begin(desk.engine, plan_of(node("second", executor="exec.local.keyed"), key="other"))
        async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as other:
            for _ in range(2):
                assert await desk.engine.store.claim_ready(other, 5) == []

    desk.provider.during("preflight", "first", others_find_nothing)
    await desk.dispatch(2)
    assert await desk.dispatch() == 1
    assert (await desk.states())["second"] == "SUBMITTED"
