"""Breakers from the launchpad to the sensors: seen, obeyed, and no reason to launch or to worry."""

from __future__ import annotations

import dagster as dg
import pytest

from assets.breakers import NONE_HELD_BACK
from qtg_dagster.composition import Platform
from qtg_dagster.domain.plans import Plan
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import create_movement, publish_template
from qtg_dagster.host.platform_checks import breakers
from qtg_dagster.upkeep.seeding import seed
from qtg_dagster.upkeep.workers import survey_workers
from tests.orchestration.shapes import Ask, Launch, Rows, Shown, Tick

SCOPE = "lane:local"


def hold(launch: Launch) -> dg.ExecuteInProcessResult:
    return launch("open_breaker", "open", scope=SCOPE, actor="grace", reason="venue down")


def state_of_move(rows: Rows) -> str:
    [row] = rows("SELECT node_state FROM qtg.movement_request_nodes WHERE node_key = 'move'")
    return str(row["node_state"])


def test_a_breaker_is_opened_released_and_closed_from_the_launchpad(
    approved: str, launch: Launch, metadata: Shown, rows: Rows
) -> None:
    opened = hold(launch)
    assert metadata(opened)["holds back"] == 1
    assert "by grace: venue down; holds back 1 node" in metadata(opened)["stands"]
    assert launch("dispatch").success
    assert state_of_move(rows) == "READY"
    released = launch("release_breaker", "release", scope=SCOPE, per_minute=6, actor="ada", reason="carefully")
    assert "released by ada at 6 a minute" in metadata(released)["stands"]
    assert launch("dispatch").success
    assert state_of_move(rows) == "SUBMITTED"
    closed = launch("close_breaker", "close", scope=SCOPE, actor="ada", reason="it is back")
    assert "1 let through, 0 nodes to go" in metadata(closed)["stood"]
    assert [row["action"] for row in rows("SELECT action FROM qtg.audit_outbox WHERE subject_type = 'breaker'")] == [
        "open_breaker",
        "release_breaker",
        "close_breaker",
    ]


def test_what_cannot_be_done_is_refused_on_the_runs_page(launch: Launch, failure: Shown) -> None:
    unknown = launch("open_breaker", "open", scope="lane:moon", actor="grace", reason="x")
    assert failure(unknown).metadata["field"].value == "scope"
    assert SCOPE in failure(unknown).metadata["fix"].value
    assert "no breaker is open" in failure(launch("close_breaker", "close", scope=SCOPE, actor="ada")).description
    assert hold(launch).success
    assert "by grace: venue down" in failure(hold(launch)).description


def test_no_drain_is_launched_for_what_is_held_back_and_none_is_missed(
    approved: str, launch: Launch, tick: Tick, ask: Ask
) -> None:
    hold(launch)
    for _ in range(3):
        result = tick("ready_nodes")
        assert not result.run_requests
        assert "no work" in result.skip_reason.skip_message

    async def survey(platform: Platform) -> tuple[int | None, bool]:
        found = await survey_workers(platform.database, platform.settings, asked_by="test")
        [dispatcher] = [one for one in found.workers if one.spec.name == "node_dispatcher"]
        return dispatcher.waiting, dispatcher.alarming

    assert ask(survey) == (0, False)
    launch("release_breaker", "release", scope=SCOPE, per_minute=1, actor="ada")
    assert tick("ready_nodes").run_requests


def test_a_movement_under_a_breaker_says_so_where_it_is_decided(
    ask: Ask, plan: Plan, launch: Launch, metadata: Shown
) -> None:
    async def create(platform: Platform) -> str:
        await publish_template(platform.engine, plan)
        order = MovementOrder(template_key=plan.template_key, requested_by="ada")
        return (await create_movement(platform.engine, order)).request_id

    request_id = ask(create)
    hold(launch)
    approved = launch("approve_movement", "approve", request_id=request_id, actor="grace")
    assert metadata(approved)["held back"] == f"move by {SCOPE}"


def test_what_is_held_back_is_seen_in_the_check_and_in_doctor(
    approved: str, launch: Launch, tick: Tick, ask: Ask
) -> None:
    def told(cursor: str | None) -> tuple[list[dg.AssetCheckEvaluation], str | None]:
        result = tick("movements_finished", cursor)
        found = [e for e in result.asset_events or [] if isinstance(e, dg.AssetCheckEvaluation)]
        return [one for one in found if one.check_name == NONE_HELD_BACK], result.cursor or cursor

    [fine], cursor = told(None)
    assert fine.passed
    hold(launch)
    [seen], cursor = told(cursor)
    assert not seen.passed
    assert seen.severity is dg.AssetCheckSeverity.WARN
    assert "holds back 1 node" in seen.metadata[f"{SCOPE} open"].value
    assert told(cursor)[0] == []

    async def settings(platform: Platform) -> object:
        return platform.settings

    [line] = breakers(ask(settings))
    assert line.ok
    assert f"{SCOPE} open since" in line.detail


def test_a_paused_start_stands_before_anything_can_start(
    approved: str, launch: Launch, ask: Ask, tick: Tick, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MG_START_PAUSED", "true")
    for _ in range(2):
        ask(lambda platform: seed(platform.engine))
    assert rows("SELECT scope, opened_by FROM qtg.breakers") == [{"scope": "network:sandbox", "opened_by": "startup"}]
    assert not tick("ready_nodes").run_requests
    assert launch("dispatch").success
    assert state_of_move(rows) == "READY"
    assert launch("close_breaker", "close", scope="network:sandbox", actor="ada", reason="looked around").success
    assert launch("dispatch").success
    assert state_of_move(rows) == "SUBMITTED"
