"""Capital transfers and old CCIP sends as people and schedules meet them in Dagster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from assets.capital_transfers import find_stranded, find_transfers
from assets.keys import WINDOW_TAG
from qtg_dagster.composition import Platform
from qtg_dagster.engine.requests import publish_template
from qtg_dagster.jobs.movements import read_plans
from qtg_dagster.store.ccip_sends import SendIntent, record_send_intent
from resources import ResourceSet
from tests.orchestration.shapes import Ask, Launch, Rows, Shown

MINUTE = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
INVENTORY = """
assets: {USDC: {symbol: USDC, decimals: 6}}
chains: {"eip155:31337": {name: Local, rpc_urls: ["http://127.0.0.1:1"], native_asset: USDC}}
accounts:
  treasury: {chain: "eip155:31337", address: "0x1111111111111111111111111111111111111111"}
  vault: {chain: "eip155:31337", address: "0x2222222222222222222222222222222222222222"}
routes:
  way: {from: treasury, to: vault, assets: [USDC], template_key: by_hand}
"""
TEMPLATE = """
template_key: by_hand
title: By hand
parameters: [{name: amount, type: amount, asset: USDC}]
nodes: [{node_key: manual_send, node_kind: manual, action_type: send}]
"""
WANTED = {"source": "treasury", "destination": "vault", "asset": "USDC", "amount": "25", "requested_by": "ada"}
WHO = {"actor": "grace", "reason": "seen to"}


@pytest.fixture(autouse=True)
def _inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(INVENTORY)
    monkeypatch.setenv("MG_INVENTORY_FILE", str(file))
    monkeypatch.setenv("MG_CAPITAL_TRANSFER_FOLLOWUP_ENABLED", "true")


@pytest.fixture(autouse=True)
def _template(_inventory: None, ask: Ask) -> None:
    async def publish(platform: Platform) -> None:
        [plan] = read_plans(TEMPLATE, platform.engine.inventory)
        await publish_template(platform.engine, plan)

    ask(publish)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """One that lasts: schedules reach an instance by its reference only."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def wanted(launch: Launch, metadata: Shown) -> dict[str, Any]:
    """What the page of a request shows."""
    return metadata(launch("request_capital_transfer", "request_transfer", **WANTED))


def states(rows: Rows) -> list[str]:
    return [row["transfer_state"] for row in rows("SELECT transfer_state FROM qtg.capital_transfer_requests")]


def finding(ask: Ask, find: Any) -> Any:
    return ask(lambda platform: find(platform.database, platform.settings))


def evaluate(
    defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance, name: str
) -> dg.ScheduleExecutionData:
    given = {"settings": resources.settings, "database": resources.database}
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        return defs.resolve_schedule_def(name).evaluate_tick(context)


def test_a_request_shows_its_movement_which_waits_for_approval(wanted: dict[str, Any], rows: Rows) -> None:
    assert wanted["transfer state"] == "MOVING"
    assert wanted["transfer"] == "25 USDC account:treasury -> account:vault"
    [movement] = rows("SELECT id::text AS id, request_state FROM qtg.movement_requests")
    assert (wanted["movement"], movement["request_state"]) == (movement["id"], "PENDING_APPROVAL")


def test_what_no_route_carries_is_refused_with_field_and_fix(launch: Launch, failure: Shown, rows: Rows) -> None:
    back = {**WANTED, "source": "vault", "destination": "treasury"}
    shown = failure(launch("request_capital_transfer", "request_transfer", **back))
    assert shown.metadata["field"].value == "route"
    assert "USDC account:treasury -> account:vault" in shown.metadata["fix"].value
    assert states(rows) == []


def test_the_follow_up_settles_what_its_movement_has_done(
    wanted: dict[str, Any], launch: Launch, metadata: Shown, rows: Rows, ask: Ask
) -> None:
    launch("approve_movement", "approve", request_id=wanted["movement"], actor="grace")
    done = {"request_id": wanted["movement"], "node_key": "manual_send", "actor": "grace", "note": "done"}
    launch("complete_manual_step", "complete", **done)
    shown = metadata(launch("follow_up_capital_transfers"))
    assert shown == {"changed": 1, "settled": 1}
    assert states(rows) == ["SETTLED"]
    assert finding(ask, find_transfers).passed
    [beat] = rows("SELECT last_items FROM qtg.worker_heartbeats WHERE worker = 'capital_transfer_followup'")
    assert beat["last_items"] == 1


def test_what_stopped_fails_the_check_with_what_to_do_and_is_decided_on_by_jobs(
    wanted: dict[str, Any], launch: Launch, metadata: Shown, failure: Shown, rows: Rows, ask: Ask
) -> None:
    launch("reject_movement", "reject", request_id=wanted["movement"], **WHO)
    launch("follow_up_capital_transfers")
    found = finding(ask, find_transfers)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    [told] = found.metadata.values()
    assert f"movement {wanted['movement']} is REJECTED; nothing of it moved" in told
    assert "To do: `qtg transfer retry`" in told
    which = {"transfer_id": wanted["transfer id"], **WHO}
    refused = failure(launch("close_capital_transfer", "close_transfer", **which))
    assert "nothing of it moved; cancel it instead. Possible now: retry, cancel" in refused.description
    again = metadata(launch("retry_capital_transfer", "retry_transfer", **which))
    assert (again["transfer state"], again["attempt"]) == ("MOVING", 2)
    ended = metadata(launch("cancel_capital_transfer", "cancel_transfer", **which))
    assert ended["transfer state"] == "CANCELLED"
    [deed] = rows("SELECT actor FROM qtg.audit_outbox WHERE action = 'cancel_capital_transfer'")
    assert deed["actor"] == WHO["actor"]
    assert finding(ask, find_transfers).passed


def test_open_transfers_that_nobody_follows_up_are_told_of(
    wanted: dict[str, Any], ask: Ask, defs: dg.Definitions
) -> None:
    assert finding(ask, find_transfers).passed

    async def find_off(platform: Platform) -> Any:
        off = platform.settings.model_copy(update={"capital_transfer_followup_enabled": False})
        return await find_transfers(platform.database, off)

    found = ask(find_off)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "MG_CAPITAL_TRANSFER_FOLLOWUP_ENABLED" in found.metadata["not followed up"]


def test_the_schedule_starts_a_run_only_when_something_is_due(
    wanted: dict[str, Any],
    launch: Launch,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    rows: Rows,
) -> None:
    first = evaluate(defs, resources, instance, "follow_up_capital_transfers")
    [request] = first.run_requests  # no pass was made within the hour
    assert datetime.fromisoformat(request.tags[WINDOW_TAG]) == MINUTE
    rows(
        "INSERT INTO qtg.cycles (network_class, worker, cycle_key) SELECT 'sandbox', 'capital_transfer_followup', "
        "to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') RETURNING cycle_key"
    )
    idle = evaluate(defs, resources, instance, "follow_up_capital_transfers")
    assert not idle.run_requests
    assert idle.skip_message == "no capital transfer has anything new to it"
    [beat] = rows(
        "SELECT last_outcome, last_items FROM qtg.worker_heartbeats WHERE worker = 'capital_transfer_followup'"
    )
    assert beat == {"last_outcome": "ok", "last_items": 0}
    launch("reject_movement", "reject", request_id=wanted["movement"], **WHO)
    assert evaluate(defs, resources, instance, "follow_up_capital_transfers").run_requests


@pytest.fixture
def old_send(approved: str, ask: Ask) -> None:
    """A CCIP send that left two hours ago, and of which nobody has heard."""

    async def write(platform: Platform) -> None:
        async with platform.database.transaction() as tx:
            query = "SELECT id::text FROM qtg.movement_request_nodes WHERE node_key = 'move'"
            node = (await tx.execute(text(query))).scalar_one()
            await record_send_intent(tx, SendIntent(node, 1, "eip155:1", 5009297550715157269, "0xr", "0xs", 7))
            await tx.execute(text("UPDATE qtg.ccip_send_intent SET intended_at = now() - interval '2 hours'"))

    ask(write)


def test_an_old_send_starts_the_reaper_which_shows_it_to_people(
    old_send: None,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    launch: Launch,
    metadata: Shown,
    ask: Ask,
    rows: Rows,
) -> None:
    assert finding(ask, find_stranded).passed
    assert evaluate(defs, resources, instance, "reap_ccip_stranded").run_requests
    assert metadata(launch("reap_ccip_stranded")) == {"moved": 1}
    found = finding(ask, find_stranded)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    [told] = found.metadata.values()
    assert "Look on eip155:1 for nonce 7 of 0xs" in told
    idle = evaluate(defs, resources, instance, "reap_ccip_stranded")
    assert "without being accounted for" in idle.skip_message
    [beat] = rows("SELECT last_outcome FROM qtg.worker_heartbeats WHERE worker = 'ccip_stranded_reaper'")
    assert beat == {"last_outcome": "ok"}


def test_the_reaper_stands_still_with_the_core_group_and_its_death_is_a_core_worker_s(
    old_send: None,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    launch: Launch,
    metadata: Shown,
    rows: Rows,
) -> None:
    run = instance.create_run_for_job(defs.resolve_job_def("reap_ccip_stranded"), status=dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(run)
    evaluate(defs, resources, instance, "reap_ccip_stranded")
    assert rows("SELECT worker FROM qtg.core_deaths") == [{"worker": "ccip_stranded_reaper"}]
    rows(
        "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) "
        "VALUES ('sandbox', 'halt', 5, 'bug') RETURNING id"
    )
    assert "core group halted" in evaluate(defs, resources, instance, "reap_ccip_stranded").skip_message
    shown = metadata(launch("reap_ccip_stranded"))
    assert shown["moved"] == 0
    assert "core group halted" in shown["not run because"]
