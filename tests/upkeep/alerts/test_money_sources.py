"""Transfers that stopped, sends whose end nobody knows, and nonces that hold up their sender, as alerts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from qtg_dagster.domain.alerts import Severity
from qtg_dagster.domain.capital_transfers import Attention, TransferState
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import read_alerts
from qtg_dagster.store.capital_transfers import Transfer
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.alerts.detection import detect_alerts
from qtg_dagster.upkeep.alerts.sources import dead_nonces, transfers
from qtg_dagster.upkeep.nonce_alarms import NonceAlarm
from tests.engine.desk import Desk
from tests.engine.plans import chain

AT = datetime(2026, 1, 1, tzinfo=UTC)
TRANSFER = Transfer(
    transfer_id="t1",
    network_class="sandbox",
    state=TransferState.NEEDS_ATTENTION,
    source="venue:a",
    destination="account:b",
    asset="USDC",
    decimals=6,
    base_units=1,
    reason="",
    requested_by="ada",
    idempotency_key=None,
    wanted_by=None,
    overdue=False,
    attempt_no=1,
    attention_kind=Attention.MAY_HAVE_MOVED,
    attention="withdraw is UNKNOWN",
    attention_since=AT,
    state_since=AT,
    created_at=AT,
    finished_at=None,
)


def test_a_transfer_that_stopped_is_critical_and_one_that_is_late_is_not() -> None:
    stopped = transfers.condition(TRANSFER)
    assert stopped is not None
    assert (stopped.severity, stopped.title) == (Severity.CRITICAL, "capital transfer t1 stopped")
    assert stopped.evidence["why"] == "withdraw is UNKNOWN"
    assert "qtg movement show" in stopped.allowed[0]
    late = transfers.condition(replace(TRANSFER, state=TransferState.MOVING, attention_kind=Attention.OVERDUE))
    assert late is not None
    assert (late.severity, late.title) == (Severity.WARNING, "capital transfer t1 is late")
    assert transfers.condition(replace(TRANSFER, attention_kind=None)) is None


def test_a_dead_nonce_is_critical_and_says_what_to_do() -> None:
    found = dead_nonces.condition(NonceAlarm("eip155:1 0x1 7", "dead; `qtg nonce fill` frees it"))
    assert (found.severity, found.key) == (Severity.CRITICAL, "eip155:1 0x1 7")
    assert "qtg nonce fill" in found.evidence["what"]


async def test_a_send_without_a_known_end_is_critical(desk: Desk, sender: Database, settings: Settings) -> None:
    await desk.begin(chain())
    await desk.sql(
        "INSERT INTO qtg.ccip_send_intent (network_class, request_node_id, attempt_no, send_state, source_chain, "
        "destination_selector, router, sender) "
        "SELECT 'sandbox', id, 1, 'INTENT', 'eip155:1', 5, '0x1', '0x2' "
        "FROM qtg.movement_request_nodes WHERE node_key = 'first'"
    )
    await detect_alerts(sender, settings)
    async with sender.transaction() as tx:
        assert await read_alerts(tx, "sandbox") == []
    await desk.sql(
        "UPDATE qtg.ccip_send_intent SET send_state = 'STRANDED', stranded_at = now(), attention = 'ask the explorer'"
    )
    await detect_alerts(sender, settings)
    async with sender.transaction() as tx:
        [alert] = await read_alerts(tx, "sandbox")
    assert (alert.kind, alert.severity) == ("ccip_stranded", "critical")
    assert alert.details["evidence"]["where"] == "ask the explorer"
