"""What one node's end means for the movement: joins, branches, and the state that follows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sqlalchemy import text

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.requests import cancel_movement, complete_manual_node
from tests.engine.desk import Desk
from tests.engine.plans import diamond, manual, node, plan_of, until, watch
from tests.engine.provider import answer


async def test_two_branches_that_end_at_the_same_moment_release_their_join(desk: Desk) -> None:
    await desk.begin(diamond())
    await desk.dispatch()
    await desk.observe()
    assert await desk.dispatch(2) == 2
    async with desk.engine.database.transaction() as holder:
        await holder.execute(text("SELECT 1 FROM qtg.movement_requests FOR NO KEY UPDATE"))

        async def waiting() -> int:
            [row] = await desk.rows(
                "SELECT count(*) AS waiting FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return int(row["waiting"])

        async def one_waits() -> bool:
            return await waiting() == 1

        async def both_wait() -> bool:
            return await waiting() == 2

        # Two writers, as two processes have; the second claims when the first has, or they may try for the same node.
        first = asyncio.create_task(observe_active_nodes(desk.engine, desk.runner, 1))
        await until(one_waits, "a branch waits for the movement's lock")
        second = asyncio.create_task(observe_active_nodes(replace(desk.engine), desk.runner, 1))
        await until(both_wait, "both branches wait for the movement's lock")
    assert (await first, await second) == (1, 1)
    assert await desk.states() == {"top": "COMPLETED", "left": "COMPLETED", "right": "COMPLETED", "bottom": "READY"}


async def test_a_join_waits_for_its_last_branch(desk: Desk) -> None:
    await desk.begin(diamond(), callback_url="https://desk.example/hook")
    await desk.dispatch()
    await desk.observe()
    await desk.dispatch(2)
    desk.will("observe", "right", ResultStatus.OBSERVING)
    await desk.observe()
    assert (await desk.states())["bottom"] == "BLOCKED"
    frontiers = await desk.rows(
        "SELECT payload -> 'frontier' AS frontier FROM qtg.movement_callback_outbox "
        "WHERE event_type = 'frontier_advanced' ORDER BY id"
    )
    assert [row["frontier"] for row in frontiers] == [["left", "right"]]
    [request] = await desk.rows("SELECT current_frontier FROM qtg.movement_requests")
    assert request["current_frontier"] == ["left", "right"]


async def test_a_failure_without_any_effect_fails_the_movement(desk: Desk) -> None:
    await desk.begin(plan_of(node("first"), node("last"), edges=(("first", "last"),)))
    desk.will("submit", "first", answer(ResultStatus.REJECTED, error_code="LIMIT"))
    await desk.dispatch()
    assert await desk.request_state() == "FAILED"
    assert desk.provider.book == []


async def test_a_failure_after_an_effect_calls_for_a_person_with_evidence_and_actions(desk: Desk) -> None:
    await desk.begin(
        plan_of(node("first"), node("last"), edges=(("first", "last"),)), callback_url="https://desk.example/"
    )
    await desk.dispatch()
    await desk.observe()
    desk.will("submit", "last", answer(ResultStatus.REJECTED, error_code="LIMIT", evidence={"code": "-4026"}))
    await desk.dispatch()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    [told] = await desk.rows(
        "SELECT payload FROM qtg.movement_callback_outbox WHERE event_type = 'request_attention'",
    )
    assert told["payload"]["node_key"] == "last"
    assert told["payload"]["node_state"] == "FAILED"
    assert told["payload"]["evidence"]["evidence"] == {"code": "-4026"}
    assert told["payload"]["allowed_actions"] == ["cancel", "retry last"]


async def test_nobody_is_told_failed_while_another_branch_may_have_moved_money(desk: Desk) -> None:
    await desk.begin(plan_of(node("left"), node("right")))

    async def right_unknown() -> bool:
        return (await desk.states())["right"] == "UNKNOWN"

    desk.will("submit", "left", ResultStatus.REJECTED)
    desk.provider.during("submit", "left", lambda: until(right_unknown, "right is unknown"))
    desk.will("submit", "right", TimeoutError("reply lost"))
    await desk.dispatch(2)
    assert await desk.states() == {"left": "FAILED", "right": "UNKNOWN"}
    assert await desk.request_state() == "EXECUTING"
    desk.will("recover", "right", ResultStatus.FAILED)
    assert await desk.recover() == 1
    assert await desk.request_state() == "FAILED"


async def test_a_branch_that_never_left_is_not_sent_again_after_its_sibling_failed(desk: Desk) -> None:
    await desk.begin(plan_of(node("left"), node("right")))

    async def left_failed() -> bool:
        return (await desk.states())["left"] == "FAILED"

    desk.will("submit", "left", ResultStatus.REJECTED)
    desk.will("submit", "right", ResultStatus.NOT_SENT)
    desk.provider.during("submit", "right", lambda: until(left_failed, "left has failed"))
    await desk.dispatch(2)
    assert await desk.states() == {"left": "FAILED", "right": "READY"}
    assert await desk.request_state() == "FAILED"
    await desk.make_due()
    assert await desk.dispatch() == 0


async def test_proof_that_arrives_after_a_person_was_called_is_not_lost(desk: Desk) -> None:
    """The movement may not go from waiting for intervention to waiting for a manual step: it stays where it is."""
    await desk.begin(plan_of(node("left"), node("right"), manual("manual_check")))
    desk.will("submit", "left", TimeoutError("reply lost"))
    await desk.dispatch(2)
    assert await desk.states() == {"left": "UNKNOWN", "right": "SUBMITTED", "manual_check": "READY"}

    async def right_completes() -> None:
        await desk.observe()
        assert await desk.request_state() == "MANUAL_INTERVENTION"

    desk.provider.during("recover", "left", right_completes)
    desk.will("recover", "left", ResultStatus.COMPLETED)
    assert await desk.recover() == 1
    assert (await desk.states())["left"] == "COMPLETED"
    assert await desk.request_state() == "MANUAL_INTERVENTION"


async def test_an_uncertain_node_is_not_left_behind_a_persons_step(desk: Desk) -> None:
    await desk.begin(plan_of(watch("look"), manual("manual_check")))
    desk.will("submit", "look", TimeoutError("reply lost"))
    await desk.dispatch()
    assert await desk.request_state() == "EXECUTING"
    assert await desk.recover() == 1


async def test_a_manual_step_holds_the_movement_and_its_refs_reach_later_nodes(desk: Desk) -> None:
    plan = plan_of(
        manual("manual_bridge"),
        node("last", config={"reference": "$ref:manual_bridge.ticket"}),
        edges=(("manual_bridge", "last"),),
    )
    request_id = await desk.begin(plan)
    assert await desk.request_state() == "WAITING_MANUAL_ACTION"
    assert await desk.dispatch() == 0
    await complete_manual_node(
        desk.engine,
        request_id,
        "manual_bridge",
        actor="grace",
        note="done in the portal",
        provider_refs={"ticket": "T-7"},
    )
    assert await desk.request_state() == "EXECUTING"
    assert await desk.dispatch() == 1
    assert desk.provider.contexts[-1].node_config == {"reference": "T-7"}
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"


async def test_cancel_leaves_no_node_that_could_start(desk: Desk) -> None:
    request_id = await desk.begin(diamond())
    await cancel_movement(desk.engine, request_id, actor="grace", reason="changed our mind")
    assert set((await desk.states()).values()) == {"CANCELLED"}
    assert await desk.request_state() == "CANCELLED"
    assert await desk.dispatch(4) == 0
