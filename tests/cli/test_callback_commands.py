"""`qtg callback`, and what `qtg doctor` says of callbacks, on a real database."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli
from qtg_dagster.host.platform_checks import callbacks
from qtg_dagster.settings import load_settings

EVENT = "5f8c2a4e-1d53-4a39-9a57-0c3a8c6f1b7d"
REQUEST = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
TOLD = ("--by", "ada", "--reason", "the hook was moved")


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inventory.yaml").write_text("{}")
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(tmp_path / "inventory.yaml"))


@pytest.fixture
def given_up(database_url: str) -> None:
    """One callback in the dlq."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "WITH t AS (INSERT INTO qtg.movement_templates (template_key) VALUES ('t') RETURNING id), "
            "v AS (INSERT INTO qtg.movement_plan_versions (template_id, version, graph_hash, title, description) "
            "SELECT id, 1, 'g', 't', '' FROM t RETURNING id) "
            "INSERT INTO qtg.movement_requests (id, network_class, plan_version_id, request_state, body_hash, "
            "compiled_plan_hash, approval_digest, requested_by, reason) "
            "SELECT %s, 'sandbox', id, 'PENDING_APPROVAL', 'b', 'c', 'd', 'ada', '' FROM v",
            (REQUEST,),
        )
        connection.execute(
            "INSERT INTO qtg.movement_callback_outbox (event_id, request_id, event_type, callback_url, status, "
            "attempts, last_error) VALUES (%s, %s, 'frontier_advanced', 'https://hooks.example.com/', 'dlq', 5, "
            "'timeout: no answer within 10 s')",
            (EVENT, REQUEST),
        )


def qtg(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), words)


def test_without_callbacks_there_is_nothing_to_see() -> None:
    assert qtg("callback", "list").output == "no callback\n"
    assert qtg("callback", "redrive", "--all", *TOLD).output == "redriven: 0\n"


@pytest.mark.usefixtures("given_up")
def test_what_was_given_up_is_seen_redriven_and_told_once_more() -> None:
    listed = qtg("callback", "list", "--status", "dlq").output
    assert listed.startswith(f"{EVENT}  dlq       {REQUEST} #1")
    assert listed.endswith("hooks.example.com  attempts 5  timeout: no answer within 10 s\n")
    shown = qtg("callback", "show", EVENT).output
    assert "https://hooks.example.com/" in shown
    assert f'"event_id": "{EVENT}"' in shown
    assert qtg("callback", "redrive", "--receiver", "hooks.example.com", *TOLD).output == "redriven: 1\n"
    assert qtg("callback", "list", "--status", "dlq").output == "no callback\n"
    said = qtg("callback", "resend", "--movement", REQUEST, *TOLD).output
    assert said == "told once more: 0; on their way already: 1\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("callback", "redrive", *TOLD), "--all"),
        (("callback", "resend", *TOLD), "exactly one"),
        (("callback", "resend", "--event", EVENT, *TOLD), f"no callback of event_id '{EVENT}'"),
        (("callback", "show", "nothing"), "no callback 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    refused = qtg(*words)
    assert refused.exit_code != 0
    assert said in refused.output


@pytest.mark.usefixtures("given_up")
def test_the_doctor_says_what_was_given_up_and_what_cannot_be_signed() -> None:
    [lost] = callbacks(load_settings())
    assert not lost.ok
    assert "hooks.example.com: 1 since" in lost.detail
    assert "redrive --receiver" in lost.remedy
    qtg("callback", "redrive", "--all", *TOLD)
    [waiting] = callbacks(load_settings())
    assert not waiting.ok
    assert waiting.detail.startswith("1 wait; callbacks wait: the inventory has no `callbacks` section")


def test_the_doctor_is_content_when_nothing_waits() -> None:
    [finding] = callbacks(load_settings())
    assert (finding.ok, finding.detail) == (True, "none given up, 0 wait")
