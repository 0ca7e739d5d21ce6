"""What is the matter is found in what the engine itself has written, by the role that delivers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from qtg_dagster.domain.alert_messages import AlertView
from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.engine.breakers import close_breaker, open_breaker
from qtg_dagster.engine.interventions import resume_movement
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import read_alerts
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.upkeep.alerts.detection import detect_alerts, look_for_alerts
from qtg_dagster.upkeep.alerts.looking import Look, Source
from qtg_dagster.upkeep.alerts.sources import SOURCES, audit_chain
from tests.engine.desk import Desk
from tests.engine.plans import chain, manual, node, plan_of

S = ResultStatus
PAIR = plan_of(node("first"), node("last"), edges=(("first", "last"),), key="pair")


async def stop_at_last(desk: Desk, status: ResultStatus = S.UNKNOWN) -> str:
    request_id = await desk.begin(PAIR)
    await desk.dispatch()
    await desk.observe()
    desk.will("submit", "last", status)
    await desk.dispatch()
    assert await desk.request_state() == "MANUAL_INTERVENTION"
    return request_id


async def open_alerts(database: Database, *, resolved: bool = False) -> list[AlertView]:
    async with database.transaction() as tx:
        return await read_alerts(tx, "sandbox", resolved=resolved)


async def one_alert(desk: Desk, sender: Database, settings: Settings) -> AlertView:
    await detect_alerts(sender, settings)
    [alert] = await open_alerts(sender)
    return alert


async def test_where_nothing_is_the_matter_nothing_is_found(sender: Database, settings: Settings) -> None:
    seen = await look_for_alerts(sender, settings)
    assert (seen.conditions, dict(seen.failed)) == ([], {})


async def test_a_stopped_movement_comes_with_its_evidence_and_what_may_be_done(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    request_id = await stop_at_last(desk, S.REJECTED)
    alert = await one_alert(desk, sender, settings)
    assert (alert.kind, alert.severity, alert.dedupe_key) == ("manual_intervention", "critical", request_id)
    assert alert.details["allowed"] == ["cancel", "retry last"]
    assert alert.details["evidence"]["last"].startswith("FAILED")
    assert alert.details["evidence"]["last evidence"]
    assert alert.details["look"] == [f"qtg movement show {request_id} --journal"]


async def test_a_movement_that_stands_as_before_is_not_described_again_and_one_that_moved_is(
    desk: Desk, sender: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stop_at_last(desk)
    before = await one_alert(desk, sender, settings)
    assert before.details["allowed"] == ["resume"]
    from qtg_dagster.upkeep.alerts.sources import interventions

    asked: list[str] = []
    real = interventions.troubled_nodes

    async def counted(tx: Any, request_id: str) -> Any:
        asked.append(request_id)
        return await real(tx, request_id)

    monkeypatch.setattr(interventions, "troubled_nodes", counted)
    assert (await one_alert(desk, sender, settings)).details == before.details
    assert asked == []
    await desk.sql("UPDATE qtg.movement_request_nodes SET node_state = 'SUBMITTED' WHERE node_key = 'last'")
    after = await one_alert(desk, sender, settings)
    assert len(asked) == 1
    assert after.details["mark"] != before.details["mark"]
    assert after.id == before.id


async def test_a_movement_that_goes_on_ends_its_alert(desk: Desk, sender: Database, settings: Settings) -> None:
    request_id = await stop_at_last(desk)
    alert = await one_alert(desk, sender, settings)
    await resume_movement(desk.engine, request_id, actor="heidi", reason="looked")
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []
    [over] = await open_alerts(sender, resolved=True)
    assert (over.id, over.resolved_by) == (alert.id, None)


async def test_an_uncertain_node_is_told_after_a_while_and_becomes_critical(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    request_id = await desk.begin(chain())
    desk.will("submit", "first", S.UNKNOWN)
    await desk.dispatch()
    assert await desk.request_state() == "EXECUTING"
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []
    for seconds, severity in ((901, Severity.WARNING), (3601, Severity.CRITICAL)):
        await _age(desk, seconds)
        alert = await one_alert(desk, sender, settings)
        assert (alert.kind, alert.severity) == ("uncertain_node", severity)
    assert alert.dedupe_key == f"{request_id} first"
    await desk.make_due()
    await desk.recover()
    assert (await desk.states())["first"] != "UNKNOWN"
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []


async def _age(desk: Desk, seconds: int) -> None:
    """Let all that happened have happened so long ago."""
    await desk.sql("ALTER TABLE qtg.movement_node_steps DISABLE TRIGGER append_only_movement_node_steps")
    await desk.sql("UPDATE qtg.movement_node_steps SET recorded_at = now() - make_interval(secs => :age)", age=seconds)
    await desk.sql("ALTER TABLE qtg.movement_node_steps ENABLE TRIGGER append_only_movement_node_steps")


async def test_a_manual_step_is_worth_a_note(desk: Desk, sender: Database, settings: Settings) -> None:
    await desk.begin(plan_of(manual("manual_sign_off"), key="by_hand"))
    assert await desk.request_state() == "WAITING_MANUAL_ACTION"
    alert = await one_alert(desk, sender, settings)
    assert (alert.kind, alert.severity) == ("manual_step", "info")


async def test_callbacks_given_up_are_one_alert_a_receiver_without_its_secrets(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    await desk.begin(chain())
    for number, url in enumerate(("https://u:pw@ops.example/a/SECRETpath", "https://ops.example/b?k=SECRETkey")):
        await desk.sql(
            "INSERT INTO qtg.movement_callback_outbox "
            "(request_id, event_type, callback_url, status, attempts, last_error) "
            "SELECT id, 'request_state_changed', :url, 'dlq', 5, :error FROM qtg.movement_requests",
            url=url,
            error=f"error {number}",
        )
    alert = await one_alert(desk, sender, settings)
    assert (alert.kind, alert.dedupe_key) == ("callback_dlq", "ops.example")
    assert alert.title == "2 callbacks were given up: ops.example did not take them"
    assert alert.details["evidence"]["last error"] == "error 1"
    assert "SECRET" not in str(alert)
    assert "pw" not in str(alert.details)


async def test_a_halted_core_is_critical_until_it_is_resumed(desk: Desk, sender: Database, settings: Settings) -> None:
    await desk.sql(
        "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) "
        "VALUES ('sandbox', 'halt', 5, 'node_dispatcher died (killed)')"
    )
    alert = await one_alert(desk, sender, settings)
    assert (alert.kind, alert.severity) == ("core_halted", "critical")
    assert "killed" in alert.details["evidence"]["reason"]
    await desk.sql(
        "INSERT INTO qtg.core_group_events (network_class, event, actor, reason) "
        "VALUES ('sandbox', 'resume', 'ada', 'mended')"
    )
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []


async def test_a_worker_that_fails_again_and_again_is_told_and_one_that_failed_once_is_not(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    for errors in range(1, 6):
        await Heartbeats(sender).beat(
            "sandbox", "executor_health", duration_ms=1, items=0, error=RuntimeError(f"down {errors}")
        )
        await detect_alerts(sender, settings)
        assert len(await open_alerts(sender)) == (errors == 5)
    [alert] = await open_alerts(sender)
    assert (alert.kind, alert.dedupe_key, alert.severity) == ("worker_unwell", "executor_health", "warning")
    assert "down 5" in alert.details["evidence"]["last error"]


async def test_a_core_worker_that_is_silent_is_critical(desk: Desk, sender: Database, settings: Settings) -> None:
    await Heartbeats(sender).beat("sandbox", "node_dispatcher", duration_ms=1, items=0)
    await desk.sql("UPDATE qtg.worker_heartbeats SET last_attempt_at = now() - interval '1 hour'")
    alert = await one_alert(desk, sender, settings)
    assert (alert.kind, alert.severity) == ("worker_unwell", "critical")
    assert alert.title == "worker node_dispatcher is overdue"


async def test_a_breaker_that_was_forgotten_is_told_and_a_new_one_is_not(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    await open_breaker(desk.engine, "lane:local", actor="ada", reason="venue down")
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []
    await desk.sql("UPDATE qtg.breakers SET opened_at = now() - interval '5 hours'")
    alert = await one_alert(desk, sender, settings)
    assert (alert.kind, alert.severity, alert.dedupe_key) == ("breaker_open", "info", "lane:local")
    await close_breaker(desk.engine, "lane:local", actor="ada")
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []


async def test_outboxes_that_are_late_are_behind_and_those_that_wait_their_turn_are_not(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    await desk.begin(chain(), callback_url="https://ops.example/")
    await desk.sql("UPDATE qtg.movement_callback_outbox SET created_at = now() - interval '1 hour', "
                   "next_attempt_at = now() + interval '1 hour'")  # fmt: skip
    await detect_alerts(sender, settings)
    assert await open_alerts(sender) == []
    await desk.sql("UPDATE qtg.movement_callback_outbox SET next_attempt_at = now() - interval '20 minutes'")
    await desk.sql("ALTER TABLE qtg.audit_outbox DISABLE TRIGGER guard_audit_outbox")
    await desk.sql("UPDATE qtg.audit_outbox SET occurred_at = now() - interval '20 minutes'")
    await desk.sql("ALTER TABLE qtg.audit_outbox ENABLE TRIGGER guard_audit_outbox")
    await detect_alerts(sender, settings)
    assert {alert.dedupe_key for alert in await open_alerts(sender)} == {"callbacks", "audit entries"}


async def test_a_broken_audit_chain_is_critical(desk: Desk, sender: Database, settings: Settings) -> None:
    said: list[str | None] = ["event 7 does not follow event 6"]

    async def problem(database: Database, network_class: str) -> str | None:
        return said[0]

    sources = (*(each for each in SOURCES if each.name != "audit chain"), audit_chain.source_over(problem))
    await detect_alerts(sender, settings, sources)
    [alert] = await open_alerts(sender)
    assert (alert.kind, alert.severity) == ("audit_chain", "critical")
    assert alert.details["evidence"] == {"problem": "event 7 does not follow event 6"}
    said[0] = None
    await detect_alerts(sender, settings, sources)
    assert await open_alerts(sender) == []


async def test_a_source_that_fails_blinds_for_its_own_kinds_alone_and_that_is_told(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    await open_breaker(desk.engine, "lane:local", actor="ada", reason="venue down")
    await desk.sql("UPDATE qtg.breakers SET opened_at = now() - interval '5 hours'")
    await detect_alerts(sender, settings)

    async def fails(look: Look) -> list[Condition]:
        raise ConnectionError("no answer; password=hunter2")

    broken = Source("breakers", frozenset({AlertKind.BREAKER_OPEN}), fails)
    sources = (broken, *(each for each in SOURCES if each.name != "breakers"))
    await detect_alerts(sender, settings, sources)
    found = {alert.kind: alert for alert in await open_alerts(sender)}
    assert set(found) == {"breaker_open", "blind"}
    assert "hunter2" not in str(found["blind"].details)
    await detect_alerts(sender, settings)
    assert [alert.kind for alert in await open_alerts(sender)] == ["breaker_open"]


async def test_every_kind_has_one_source_at_most_and_its_place_in_the_runbook() -> None:
    from qtg_dagster.host.paths import project_root

    kinds = [kind for source in SOURCES for kind in source.kinds]
    assert len(kinds) == len(set(kinds))
    page = (project_root() / "docs" / "notifications.md").read_text()
    for kind in AlertKind:
        assert f"\n### {kind.replace('_', '-')}\n" in page, kind


async def test_a_look_that_took_too_long_is_not_written_down(
    desk: Desk, sender: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qtg_dagster.upkeep.alerts import detection

    await desk.begin(plan_of(manual("manual_sign_off"), key="by_hand"))
    monkeypatch.setattr(detection, "STALE_SECONDS", -1)
    assert await detect_alerts(sender, settings) == 0
    assert await open_alerts(sender) == []


async def test_whoever_looks_at_once_opens_one_alert(desk: Desk, sender: Database, settings: Settings) -> None:
    await desk.begin(plan_of(manual("manual_sign_off"), key="by_hand"))
    changed = await asyncio.gather(
        *(detect_alerts(database, settings) for database in (sender, desk.engine.database) * 2)
    )
    assert sum(changed) == 1
    assert len(await open_alerts(sender)) == 1
