"""What Dagster sees: every name, and nothing heavy or reachable needed to see it."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import dagster as dg
import pytest

from qtg_dagster.definitions import build_definitions
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.paths import project_root
from qtg_dagster.settings import Settings, load_settings
from resources import ResourceSet


def repository(**settings: object) -> dg.RepositoryDefinition:
    return build_definitions(Settings(**settings), ResourceSet.wired()).get_repository_def()


def test_every_name_is_known() -> None:
    found = repository()
    assert sorted(job.name for job in found.get_all_jobs() if not job.name.startswith("__")) == [
        "acknowledge_alert",
        "acknowledge_cex_transfers",
        "acknowledge_nonce",
        "adopt_into_node",
        "approve_movement",
        "approve_template_proposal",
        "balance_snapshots",
        "cancel_capital_transfer",
        "cancel_movement",
        "clear_velocity_limit",
        "close_breaker",
        "close_capital_transfer",
        "complete_manual_step",
        "create_movement",
        "deliver",
        "dispatch",
        "enrol_signer",
        "executor_health",
        "expire",
        "fill_nonce",
        "follow_up_capital_transfers",
        "ingest_cex_transfers",
        "observe",
        "open_breaker",
        "propose_template",
        "publish_templates",
        "reap_ccip_stranded",
        "reap_evm_nonces",
        "recover",
        "redrive_callbacks",
        "reject_movement",
        "reject_template_proposal",
        "release_breaker",
        "request_capital_transfer",
        "resend_callbacks",
        "resume_core",
        "resume_movement",
        "retain",
        "retry_capital_transfer",
        "retry_node",
        "review_movement",
        "review_template_proposal",
        "set_velocity_limit",
        "settle_cex_transfer",
        "skip_manual_step",
        "verify_audit_chain",
    ]
    assert sorted(sensor.name for sensor in found.sensor_defs) == [
        "due_expirations",
        "movements_finished",
        "pending_outbox",
        "ready_nodes",
        "submitted_nodes",
        "unknown_nodes",
    ]
    assert sorted(schedule.name for schedule in found.schedule_defs) == [
        "balance_snapshots",
        "executor_health",
        "follow_up_capital_transfers",
        "ingest_cex_transfers",
        "reap_ccip_stranded",
        "reap_evm_nonces",
        "retain",
        "verify_audit_chain",
    ]
    assert sorted(found.get_top_level_resources()) == [
        "chains",
        "database",
        "delivery",
        "executors",
        "platform",
        "settings",
        "signers",
        "venues",
    ]
    graph = found.asset_graph
    assert sorted(key.to_user_string() for key in graph.get_all_asset_keys()) == [
        "alerts",
        "audit_trail",
        "balances",
        "callbacks",
        "capital_transfers",
        "cex_transfers",
        "evm_nonces",
        "executors",
        "movements",
        "retention",
        "workers",
    ]
    assert sorted(key.name for key in graph.asset_check_keys) == [
        "all_transfers_are_ours",
        "audit_chain_verifies",
        "core_group_runs",
        "every_venue_answered",
        "fresh",
        "ledger_adds_up",
        "no_ccip_send_stranded",
        "no_critical_alert_open",
        "no_dead_nonce",
        "no_end_changed",
        "none_down",
        "none_held_back",
        "none_in_dlq",
        "none_needs_attention",
        "none_needs_intervention",
        "retention_keeps_up",
        "signers_as_enrolled",
        "transfers_complete",
        "workers_beat",
    ]


def test_ops_are_named_as_the_runtime_reference_has_them() -> None:
    found = repository()
    ops = {
        name: sorted(node.name for node in found.get_job(name).nodes)
        for name in ("dispatch", "observe", "recover", "deliver", "expire")
    }
    assert ops == {
        "dispatch": ["dispatch_ready_nodes"],
        "observe": ["observe_active_nodes"],
        "recover": ["recover_unknown_nodes"],
        "deliver": ["deliver_pending_outbox"],
        "expire": ["expire_pending_requests", "expire_template_proposals"],
    }


def test_building_them_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.BetaWarning)
        warnings.simplefilter("error", dg.PreviewWarning)
        warnings.simplefilter("error", dg.SupersessionWarning)
        repository()


def test_workers_that_are_off_stand_stopped_with_the_reason() -> None:
    found = repository(workers_enabled=False)
    for one in (*found.sensor_defs, *found.schedule_defs):
        assert one.default_status.value == "STOPPED"
        assert "MG_WORKERS_ENABLED is false" in (one.description or "")


def test_a_flag_of_its_own_stops_one_schedule_alone() -> None:
    found = repository(evm_nonce_reaper_enabled=False, balance_snapshot_enabled=True)
    running = {one.name: one.default_status.value for one in found.schedule_defs}
    off = ("reap_evm_nonces", "follow_up_capital_transfers", "ingest_cex_transfers")
    assert [running.pop(name) for name in off] == ["STOPPED"] * 3
    assert set(running) >= {"balance_snapshots", "executor_health", "reap_ccip_stranded", "retain"}
    assert set(running.values()) == {"RUNNING"}
    assert "MG_CAPITAL_TRANSFER_FOLLOWUP_ENABLED is false" in (
        found.get_schedule_def("follow_up_capital_transfers").description or ""
    )
    assert "MG_EVM_NONCE_REAPER_ENABLED" in (found.get_schedule_def("reap_evm_nonces").description or "")


def test_without_a_chain_the_reaper_of_nonces_stands_stopped_with_the_reason(tmp_path: Path) -> None:
    reaper = repository().get_schedule_def("reap_evm_nonces")
    assert reaper.default_status.value == "STOPPED"
    assert "names no chain" in (reaper.description or "")
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "assets: {ETH: {symbol: ETH, decimals: 18}}\n"
        "chains: {'eip155:1': {name: one, native_asset: ETH, rpc_urls: ['http://127.0.0.1:1']}}\n"
    )
    reaper = repository(inventory_file=inventory).get_schedule_def("reap_evm_nonces")
    assert reaper.default_status.value == "RUNNING"
    assert "STOPPED" not in (reaper.description or "")


def test_intervals_come_from_the_settings() -> None:
    found = repository(node_dispatch_interval_seconds=3, executor_health_interval_seconds=600)
    assert found.get_sensor_def("ready_nodes").minimum_interval_seconds == 3
    assert found.get_schedule_def("executor_health").cron_schedule == "*/10 * * * *"


def test_an_uneven_cadence_is_refused_at_load_by_the_variable_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MG_BALANCE_SNAPSHOT_INTERVAL_SECONDS", "7")
    with pytest.raises(ConfigurationError, match="MG_BALANCE_SNAPSHOT_INTERVAL_SECONDS"):
        load_settings()


def test_loading_needs_no_database_and_imports_nothing_heavy() -> None:
    """Each of these libraries costs seconds of CPU in every process that loads the definitions."""
    program = (
        "import sys; from qtg_dagster.definitions import defs; defs.get_repository_def(); "
        "print(sorted({'web3', 'ccxt', 'pandas', 'aiohttp', 'eth_account', 'apprise'} & set(sys.modules)))"
    )
    nowhere = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **nowhere},
        cwd=project_root(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.strip() == "[]"
