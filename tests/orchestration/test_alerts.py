"""Alerts in the web UI: found by the sensor, shown by the check, acknowledged from the launchpad."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from assets.alerts import NO_CRITICAL_ALERT, find_alerts
from qtg_dagster.composition import Platform
from qtg_dagster.definitions import build_definitions
from qtg_dagster.settings import Settings
from qtg_dagster.upkeep.workers import survey_workers, worker_specs
from resources import ResourceSet
from tests.orchestration.shapes import Ask, Launch, Rows, Shown, Tick
from tests.upkeep.alerts.receivers import HttpReceiver


@pytest.fixture
def halted(ask: Ask) -> None:
    async def halt(platform: Platform) -> None:
        async with platform.database.transaction() as tx:
            await tx.execute(
                text(
                    "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) "
                    "VALUES ('sandbox', 'halt', 5, 'node_dispatcher died')"
                )
            )

    ask(halt)


def evaluation(result: dg.SensorResult) -> dg.AssetCheckEvaluation:
    return next(
        each
        for each in result.asset_events
        if isinstance(each, dg.AssetCheckEvaluation) and each.check_name == NO_CRITICAL_ALERT
    )


def test_the_sensor_finds_it_and_the_check_says_it_once(halted: None, tick: Tick, rows: Rows) -> None:
    first = tick("movements_finished")
    told = evaluation(first)
    assert not told.passed
    assert told.severity is dg.AssetCheckSeverity.ERROR
    assert "core_halted" in str(told.metadata["1 critical"].value)
    assert [row["kind"] for row in rows("SELECT kind FROM qtg.alerts")] == ["core_halted"]
    again = tick("movements_finished", first.cursor)
    assert not [each for each in again.asset_events if getattr(each, "check_name", "") == NO_CRITICAL_ALERT]


def test_without_notifications_alerts_are_found_and_nothing_is_sent(halted: None, ask: Ask, rows: Rows) -> None:
    finding = ask(lambda platform: find_alerts(platform.database, platform.settings))
    assert not finding.passed
    assert rows("SELECT 1 FROM qtg.alert_deliveries") == []


def test_the_sensor_starts_a_drain_for_it_and_the_drain_s_run_tells_the_channel(
    halted: None,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    launch: Launch,
    metadata: Shown,
    rows: Rows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("notifications: {desk: {url: {env: DESK_URL}}}\n")
    monkeypatch.setenv("MG_INVENTORY_FILE", str(inventory))
    monkeypatch.setenv("MG_NOTIFY_ENABLED", "true")
    given = {"settings": resources.settings, "delivery": resources.delivery}
    with HttpReceiver() as http:
        monkeypatch.setenv("DESK_URL", http.url())
        with dg.build_sensor_context(instance=instance, resources=given) as context:
            asked = defs.resolve_sensor_def("pending_outbox")(context)
        assert isinstance(asked, dg.SensorResult)
        assert asked.run_requests
        result = launch("deliver")
        assert result.success
        assert metadata(result)["notification_dispatcher"] == 1
        assert http.titles == ["[CRITICAL] the core workers are halted: no movement goes on"]
    [row] = rows("SELECT channel, what, outcome FROM qtg.alert_deliveries")
    assert row == {"channel": "desk", "what": "opened", "outcome": "sent"}


def test_an_alert_is_acknowledged_from_the_launchpad(
    halted: None, tick: Tick, launch: Launch, metadata: Shown, failure: Shown, rows: Rows
) -> None:
    tick("movements_finished")
    done = launch("acknowledge_alert", "acknowledge_open_alert", alert_id=1, hours=2.0, actor="ada", reason="on it")
    assert metadata(done)["acknowledged by"] == "ada"
    [row] = rows("SELECT acknowledged_by, acknowledged_until > now() + interval '119 minutes' AS long FROM qtg.alerts")
    assert row == {"acknowledged_by": "ada", "long": True}
    assert [row["action"] for row in rows("SELECT action FROM qtg.audit_outbox")] == ["acknowledge_alert"]
    unknown = launch("acknowledge_alert", "acknowledge_open_alert", alert_id=9, actor="ada", reason="on it")
    assert "there is no alert 9" in failure(unknown).description


def test_the_dispatcher_is_a_worker_that_is_off_until_it_is_switched_on(ask: Ask) -> None:
    def dispatcher(settings: Settings) -> bool:
        [spec] = [each for each in worker_specs(settings) if each.name == "notification_dispatcher"]
        return spec.on

    assert not dispatcher(Settings())
    assert dispatcher(Settings(notify_enabled=True))
    assert not dispatcher(Settings(notify_enabled=True, workers_enabled=False))

    async def survey(platform: Platform) -> str:
        on = platform.settings.model_copy(update={"notify_enabled": True})
        found = await survey_workers(platform.database, on, asked_by="test")
        [one] = [each for each in found.workers if each.spec.name == "notification_dispatcher"]
        return one.state.value

    assert ask(survey) == "never_ran"


def test_the_alert_asset_stands_with_its_check() -> None:
    graph = build_definitions(Settings(), ResourceSet.wired()).get_repository_def().asset_graph
    [key] = [each for each in graph.asset_check_keys if each.name == NO_CRITICAL_ALERT]
    assert key.asset_key == dg.AssetKey("alerts")
