"""Movements that came to rest, as asset events: each once, with what an operator wants to see."""

from __future__ import annotations

import dagster as dg
import pytest
from sqlalchemy import text

from assets.alerts import NO_CRITICAL_ALERT
from assets.breakers import NONE_HELD_BACK
from assets.callbacks import NONE_IN_DLQ
from assets.capital_transfers import NONE_NEEDS_ATTENTION, NONE_STRANDED
from assets.cex_transfer_checks import COMPLETE, MATCHED, UNDISPUTED
from assets.checks import FRESH, NO_INTERVENTION, asset_checks
from assets.keys import MOVEMENTS
from assets.nonces import NO_DEAD_NONCE
from assets.workers import CORE_GROUP_RUNS, WORKERS_BEAT
from qtg_dagster.composition import Platform
from qtg_dagster.domain.plans import Plan
from resources import ResourceSet
from tests.orchestration.shapes import Ask, Launch, Report, Tick


@pytest.fixture
def completed(approved: str, launch: Launch) -> str:
    """A movement that the drains took to its end."""
    for _ in range(2):
        launch("dispatch")
        launch("observe")
    return approved


def test_a_completed_movement_is_reported_once(completed: str, report: Report) -> None:
    ids, checks, cursor = report()
    assert ids == [completed]
    expected = (
        FRESH,
        NO_INTERVENTION,
        NONE_HELD_BACK,
        NONE_IN_DLQ,
        NONE_NEEDS_ATTENTION,
        NONE_STRANDED,
        NO_DEAD_NONCE,
        COMPLETE,
        MATCHED,
        UNDISPUTED,
        CORE_GROUP_RUNS,
        WORKERS_BEAT,
        NO_CRITICAL_ALERT,
    )
    assert checks == dict.fromkeys(expected, True)
    ids, checks, _ = report(cursor)
    assert ids == []
    assert checks == {}, "a check that stands as it stood is no news"


def test_what_is_reported_has_states_durations_references_and_a_picture(completed: str, tick: Tick) -> None:
    [event] = [e for e in tick("movements_finished").asset_events if isinstance(e, dg.AssetMaterialization)]
    assert event.asset_key == MOVEMENTS
    assert event.metadata["request state"].value == "COMPLETED"
    assert event.metadata["seconds from approval"].value > 0
    assert "move | COMPLETED | 1" in event.metadata["nodes"].value
    assert "[✓] watch" in event.metadata["picture"].value
    assert event.metadata["references"].value["move"]["reference"]


def test_a_movement_in_progress_is_not_reported(approved: str, report: Report) -> None:
    ids, _, _ = report()
    assert ids == []


def test_one_that_commits_late_with_an_earlier_time_is_still_reported(
    completed: str, report: Report, ask: Ask, launch: Launch, plan: Plan
) -> None:
    """Times are of a transaction's begin: a slow one becomes visible after a quicker one with a later time."""
    _, _, cursor = report()

    async def late(platform: Platform) -> str:
        from qtg_dagster.engine.orders import MovementOrder
        from qtg_dagster.engine.requests import create_movement, reject_movement

        order = MovementOrder(template_key=plan.template_key, requested_by="ada")
        receipt = await create_movement(platform.engine, order)
        await reject_movement(platform.engine, receipt.request_id, actor="grace", reason="late")
        earlier = text(
            "UPDATE qtg.movement_requests SET finished_at = finished_at - interval '20 seconds' "
            "WHERE id = CAST(:id AS uuid)"
        )
        async with platform.database.transaction() as transaction:
            await transaction.execute(earlier, {"id": receipt.request_id})
        return receipt.request_id

    request_id = ask(late)
    ids, _, cursor = report(cursor)
    assert ids == [request_id]
    assert report(cursor)[0] == []


def test_a_movement_that_needs_a_person_fails_the_check_until_it_is_sorted_out(
    approved: str, report: Report, ask: Ask
) -> None:
    _, _, cursor = report()

    async def become(platform: Platform, *states: str) -> None:
        move = text("UPDATE qtg.movement_requests SET request_state = :state")
        for state in states:
            async with platform.database.transaction() as transaction:
                await transaction.execute(move, {"state": state})

    ask(lambda platform: become(platform, "EXECUTING", "MANUAL_INTERVENTION"))
    ids, checks, cursor = report(cursor)
    assert ids == [approved]
    assert checks == {NO_INTERVENTION: False, NO_CRITICAL_ALERT: False}
    ask(lambda platform: become(platform, "EXECUTING"))
    ids, checks, _ = report(cursor)
    assert ids == []
    assert checks == {NO_INTERVENTION: True}, "its alert is over when it stays so"


def test_checks_can_be_run_by_hand(resources: ResourceSet, instance: dg.DagsterInstance) -> None:
    result = dg.materialize(
        [*asset_checks], selection=dg.AssetSelection.all_asset_checks(), resources=resources.by_key(), instance=instance
    )
    found = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert found == {FRESH: True, NO_INTERVENTION: True, "ledger_adds_up": True}
