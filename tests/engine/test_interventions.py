"""The ways out of a stopped movement: resume what has something to find out, retry what provably did not happen."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict, NotFound
from qtg_dagster.engine.interventions import resume_movement, retry_node
from qtg_dagster.engine.requests import cancel_movement, complete_manual_node
from tests.engine.desk import Desk
from tests.engine.plans import manual, node, plan_of, until

S = ResultStatus
PAIR = plan_of(node("first"), node("last"), edges=(("first", "last"),), key="pair")


async def resume(desk: Desk) -> None:
    await resume_movement(desk.engine, desk.request_id, actor="heidi", reason="looked at it")


async def retry(desk: Desk, node_key: str) -> None:
    await retry_node(desk.engine, desk.request_id, node_key, actor="heidi", reason="the limit was raised")


async def last_is(desk: Desk, status: ResultStatus) -> None:
    """`first` is done, `last` answered this, and the movement waits for a person."""
    await desk.begin(PAIR)
    await desk.dispatch()
    await desk.observe()
    desk.will("submit", "last", status)
    await desk.dispatch()
    assert await desk.request_state() == "MANUAL_INTERVENTION"


async def test_resume_has_an_uncertain_node_looked_at_until_it_is_certain(desk: Desk) -> None:
    await last_is(desk, S.UNKNOWN)
    await desk.make_due()
    assert await desk.recover() == 0
    with pytest.raises(Conflict, match="last UNKNOWN"):
        await cancel_movement(desk.engine, desk.request_id, actor="heidi", reason="stop")
    await resume(desk)
    assert await desk.recover() == 1
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"
    assert desk.provider.count("submit", "last") == 1
    [audit] = await desk.rows("SELECT actor, details FROM qtg.audit_outbox WHERE action = 'resume'")
    assert (audit["actor"], audit["details"]["reason"]) == ("heidi", "looked at it")
    assert set(audit["details"]) == {"reason", "compiled_plan_hash", "approval_digest"}


async def test_a_resumed_movement_whose_node_stays_uncertain_goes_on_being_looked_at(desk: Desk) -> None:
    await last_is(desk, S.UNKNOWN)
    await resume(desk)
    desk.will("recover", "last", S.UNKNOWN, S.UNKNOWN)
    for _ in range(2):
        await desk.make_due()
        assert await desk.recover() == 1
    assert await desk.request_state() == "EXECUTING"


async def test_resume_is_refused_where_nothing_would_happen(desk: Desk) -> None:
    await last_is(desk, S.REJECTED)
    with pytest.raises(Conflict, match="last is FAILED; retry it, or cancel"):
        await resume(desk)
    assert await desk.request_state() == "MANUAL_INTERVENTION"


async def test_resume_is_for_movements_that_wait_for_an_intervention(desk: Desk) -> None:
    await desk.begin(PAIR)
    with pytest.raises(Conflict, match="APPROVED, not MANUAL_INTERVENTION"):
        await resume(desk)


async def test_a_movement_that_became_certain_meanwhile_is_resumed_to_where_it_stands(desk: Desk) -> None:
    """Proof came while a person was called; what is left is a manual step."""
    await desk.begin(plan_of(node("left"), node("right"), manual("manual_check")))
    desk.will("submit", "left", TimeoutError("reply lost"))
    await desk.dispatch(2)

    async def right_completes() -> None:
        await desk.observe()

    desk.provider.during("recover", "left", right_completes)
    desk.will("recover", "left", S.COMPLETED)
    await desk.recover()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    await resume(desk)
    assert await desk.request_state() == "WAITING_MANUAL_ACTION"
    await complete_manual_node(desk.engine, desk.request_id, "manual_check", actor="heidi", note="done")
    assert await desk.request_state() == "COMPLETED"


@pytest.mark.parametrize("effect_before", [True, False])
async def test_retry_is_a_new_attempt_under_a_key_of_its_own(desk: Desk, effect_before: bool) -> None:
    if effect_before:
        await last_is(desk, S.REJECTED)
    else:
        await desk.begin(plan_of(node("last")))
        desk.will("submit", "last", S.REJECTED)
        await desk.dispatch()
        assert await desk.request_state() == "FAILED"
    await retry(desk, "last")
    assert await desk.request_state() == "EXECUTING"
    await desk.dispatch()
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"
    attempts = await desk.rows(
        "SELECT DISTINCT a.attempt_no, a.idempotency_key FROM qtg.movement_node_attempts a "
        "JOIN qtg.movement_request_nodes n ON n.id = a.request_node_id WHERE n.node_key = 'last'"
    )
    assert {row["attempt_no"] for row in attempts} == {1, 2}
    assert len({row["idempotency_key"] for row in attempts}) == 2


async def test_what_failed_before_any_effect_is_retried_too(desk: Desk) -> None:
    await desk.begin(plan_of(node("first")))
    desk.will("preflight", "first", S.REJECTED)
    await desk.dispatch()
    assert await desk.request_state() == "FAILED"
    await retry(desk, "first")
    await desk.dispatch()
    assert (await desk.node())["attempt_no"] == 1


@pytest.mark.parametrize("outcome", ["UNKNOWN", "ACCEPTED", "COMPLETED", None])
async def test_a_retry_is_refused_while_an_earlier_attempt_could_take_effect(desk: Desk, outcome: str | None) -> None:
    await last_is(desk, S.REJECTED)
    await desk.sql(
        "UPDATE qtg.movement_node_attempts SET outcome = :outcome WHERE outcome = 'REJECTED'", outcome=outcome
    )
    with pytest.raises(Conflict, match="might move the money twice"):
        await retry(desk, "last")
    assert (await desk.node("last"))["node_state"] == "FAILED"


async def test_with_two_failures_the_movement_goes_on_when_both_are_retried(desk: Desk) -> None:
    await desk.begin(plan_of(node("left"), node("right")))

    async def both_sent() -> None:
        async def there() -> bool:
            return set((await desk.states()).values()) <= {"SUBMITTING", "FAILED"}

        await until(there, "both are on their way")

    for key in ("left", "right"):
        desk.will("submit", key, S.REJECTED)
        desk.provider.during("submit", key, both_sent)
    await desk.dispatch(2)
    assert await desk.request_state() == "FAILED"
    await retry(desk, "left")
    assert await desk.request_state() == "FAILED"
    assert await desk.dispatch(2) == 0
    await retry(desk, "right")
    assert await desk.dispatch(2) == 2
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"


async def test_a_retry_beside_an_uncertain_node_waits_for_a_resume(desk: Desk) -> None:
    await desk.begin(plan_of(node("done"), node("bad"), node("lost")))

    async def others_answered() -> None:
        async def there() -> bool:
            return await desk.states() == {"done": "SUBMITTED", "bad": "SUBMITTING", "lost": "UNKNOWN"}

        await until(there, "the others have their answers")

    desk.will("submit", "bad", S.REJECTED)
    desk.will("submit", "lost", TimeoutError("reply lost"))
    desk.provider.during("submit", "bad", others_answered)
    await desk.dispatch(3)
    await desk.observe()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    await retry(desk, "bad")
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    assert await desk.dispatch() == 0
    await resume(desk)
    assert await desk.dispatch() == 1


async def test_of_two_retries_at_once_one_stands(desk: Desk) -> None:
    await last_is(desk, S.REJECTED)
    results = await asyncio.gather(retry(desk, "last"), retry(desk, "last"), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "NoneType"]
    await desk.dispatch(2)
    assert desk.provider.count("submit", "last") == 2


async def test_a_retry_needs_a_failed_node_of_a_movement_that_has_not_ended(desk: Desk) -> None:
    await last_is(desk, S.REJECTED)
    with pytest.raises(NotFound, match="no node 'nothing'"):
        await retry(desk, "nothing")
    with pytest.raises(Conflict, match="first is COMPLETED"):
        await retry(desk, "first")
    await cancel_movement(desk.engine, desk.request_id, actor="heidi", reason="stop")
    with pytest.raises(Conflict, match="CANCELLED; order a new one"):
        await retry(desk, "last")


async def test_a_retried_node_has_its_whole_time_to_be_observed(desk: Desk) -> None:
    desk.under(observe_timeout_enforcement_enabled=True)
    await desk.begin(plan_of(node("first", timeout_policy={"observe_seconds": 1800})))
    desk.will("submit", "first", S.REJECTED)
    await desk.dispatch()
    await desk.sql("UPDATE qtg.movement_request_nodes SET started_at = now() - interval '2 hours'")
    await desk.sql("UPDATE qtg.movement_node_attempts SET intended_at = now() - interval '2 hours'")
    await retry(desk, "first")
    await desk.dispatch()
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"
