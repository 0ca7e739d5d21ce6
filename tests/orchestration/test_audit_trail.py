"""The audit trail in Dagster: promoted by the delivery drain, verified by a job, a bad row on the check's page."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from qtg_dagster.store.audit_verifications import audit_chain_problem
from tests.orchestration.shapes import Ask, Launch, Rows
from tests.tampering import tamper


def deed(launch: Launch) -> None:
    held = launch("open_breaker", "open", scope="lane:cex", actor="ada", reason="looks odd")
    assert held.success
    assert launch("close_breaker", "close", scope="lane:cex", actor="grace", reason="was nothing").success
    assert launch("deliver").success


def check(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    [found] = result.get_asset_check_evaluations()
    assert found.check_name == "audit_chain_verifies"
    return found


def test_the_drain_promotes_and_the_job_verifies(launch: Launch, rows: Rows) -> None:
    deed(launch)
    assert rows("SELECT sequence, actor FROM qtg.audit_events ORDER BY sequence") == [
        {"sequence": 1, "actor": "ada"},
        {"sequence": 2, "actor": "grace"},
    ]
    [promoter] = rows("SELECT last_outcome FROM qtg.worker_heartbeats WHERE worker = 'audit_outbox_promoter'")
    assert promoter["last_outcome"] == "ok"
    result = launch("verify_audit_chain")
    assert result.success
    assert check(result).passed
    [beat] = rows("SELECT last_outcome, last_items FROM qtg.worker_heartbeats WHERE worker = 'audit_verification'")
    assert beat == {"last_outcome": "ok", "last_items": 2}
    [cycle] = rows("SELECT result FROM qtg.cycles WHERE worker = 'audit_verification'")
    assert cycle["result"] == {"items": 2, "head": 2, "complete": True, "problem": None}


def test_a_bad_row_is_named_on_the_check_s_page_until_all_is_right(launch: Launch, ask: Ask, database_url: str) -> None:
    deed(launch)
    tamper(database_url, "UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 2")
    found = check(launch("verify_audit_chain"))
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.ERROR
    told = {name: str(value.value) for name, value in found.metadata.items()}
    assert told["bad row 1"].startswith("sandbox sequence 2: changed: ")
    assert told["bad row 2"].startswith("sandbox sequence 2: event and outbox entry differ")
    assert told["problem"].endswith("(and 1 more)")
    problem = ask(lambda platform: audit_chain_problem(platform.database, "sandbox"))
    assert problem == told["problem"]
    tamper(database_url, "UPDATE qtg.audit_events SET actor = 'grace' WHERE sequence = 2")
    assert check(launch("verify_audit_chain")).passed
    assert ask(lambda platform: audit_chain_problem(platform.database, "sandbox")) is None


def test_the_job_signs_what_it_verified_where_a_key_is_set(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints").mkdir()
    key = tmp_path / "audit.pem"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv("MG_AUDIT_CHECKPOINT_KEY", f"file:{key}")
    monkeypatch.setenv("MG_AUDIT_CHECKPOINT_FOLDER", str(tmp_path / "checkpoints"))
    deed(launch)
    assert launch("verify_audit_chain").success
    assert [each.name for each in (tmp_path / "checkpoints").iterdir()] == ["sandbox-000000000002.json"]


def test_the_whole_chain_is_read_on_somebody_s_word(launch: Launch, database_url: str) -> None:
    deed(launch)
    assert check(launch("verify_audit_chain")).passed
    deed(launch)
    tamper(database_url, "UPDATE qtg.audit_events SET actor = 'mallory' WHERE sequence = 1")
    assert check(launch("verify_audit_chain")).passed, "only what is new is read each hour"
    assert not check(launch("verify_audit_chain", "audit_trail", complete=True)).passed
