"""Taking a manual step out of a movement, and what must not follow from it."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict, InvalidInput
from qtg_dagster.engine.interventions import skip_node
from tests.engine.desk import Desk
from tests.engine.plans import manual, node, plan_of

CHECKED = plan_of(
    node("first"), manual("manual_check"), node("last"), edges=(("first", "manual_check"), ("manual_check", "last"))
)


async def skip(desk: Desk, node_key: str = "manual_check") -> None:
    await skip_node(desk.engine, desk.request_id, node_key, actor="heidi", reason="seen by phone")


async def test_what_waited_for_a_skipped_step_goes_on(desk: Desk) -> None:
    await desk.begin(CHECKED)
    await desk.dispatch()
    await desk.observe()
    assert await desk.request_state() == "WAITING_MANUAL_ACTION"
    await skip(desk)
    assert (await desk.states())["manual_check"] == "SKIPPED"
    assert await desk.request_state() == "EXECUTING"
    assert await desk.dispatch() == 1
    await desk.observe()
    assert await desk.request_state() == "COMPLETED"
    [deed] = await desk.rows("SELECT actor, details FROM qtg.audit_outbox WHERE action = 'skip'")
    assert deed["actor"] == "heidi"
    assert deed["details"].items() >= {"node_key": "manual_check", "reason": "seen by phone"}.items()
    assert (await desk.steps("manual_check"))[-1]["actor"] == "heidi"


async def test_a_step_skipped_before_its_turn_keeps_the_order(desk: Desk) -> None:
    await desk.begin(CHECKED)
    await skip(desk)
    assert await desk.states() == {"first": "READY", "manual_check": "SKIPPED", "last": "BLOCKED"}
    await desk.dispatch()
    assert (await desk.states())["last"] == "BLOCKED"
    await desk.observe()
    assert (await desk.states())["last"] == "READY"


async def test_a_movement_whose_last_step_is_skipped_is_completed(desk: Desk) -> None:
    await desk.begin(plan_of(manual("manual_check")))
    await skip(desk)
    assert await desk.request_state() == "COMPLETED"


async def test_a_step_whose_values_are_needed_is_not_skipped(desk: Desk) -> None:
    needing = plan_of(
        manual("manual_check"),
        node("last", config={"ticket": "$ref:manual_check.ticket"}),
        edges=(("manual_check", "last"),),
    )
    await desk.begin(needing)
    with pytest.raises(Conflict, match=r"last needs what manual_check is to find out.*complete manual_check"):
        await skip(desk)
    assert await desk.states() == {"manual_check": "READY", "last": "BLOCKED"}


async def test_only_manual_steps_before_their_end_are_skipped(desk: Desk) -> None:
    await desk.begin(CHECKED)
    with pytest.raises(Conflict, match=r"only a manual node is skipped.*Possible now: cancel"):
        await skip(desk, "first")
    await skip(desk)
    with pytest.raises(Conflict, match="manual_check is SKIPPED"):
        await skip(desk)
    with pytest.raises(InvalidInput, match="reason"):
        await skip_node(desk.engine, desk.request_id, "manual_check", actor="heidi", reason=" ")


async def test_a_step_skipped_in_a_stopped_movement_leaves_it_stopped(desk: Desk) -> None:
    await desk.begin(plan_of(node("first"), node("other"), manual("manual_check")))
    desk.will("submit", "first", ResultStatus.UNKNOWN)
    await desk.dispatch(2)
    await desk.observe()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    await skip(desk)
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    assert (await desk.states())["manual_check"] == "SKIPPED"
