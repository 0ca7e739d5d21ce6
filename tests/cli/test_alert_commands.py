"""`qtg alert`, and what doctor says of channels, on a real database and a real receiver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli
from qtg_dagster.host.channel_checks import notification_channels
from qtg_dagster.settings import load_settings
from tests.upkeep.alerts.receivers import HttpReceiver, fails

INVENTORY = "notifications:\n  desk: {url: {env: DESK_URL}}\n  wrong: {url: {env: WRONG_URL}}\n"
HALT = (
    "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) "
    "VALUES ('sandbox', 'halt', 5, 'node_dispatcher died')"
)
DRIFT = (
    "INSERT INTO qtg.alerts (network_class, kind, dedupe_key, severity, title, raised) "
    "VALUES ('sandbox', 'drift', 'venue:x', 'warning', 'venue:x differs', true)"
)


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, http: HttpReceiver) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(inventory))
    monkeypatch.setenv("DESK_URL", http.url("hook/CANARYtoken"))
    monkeypatch.setenv("WRONG_URL", "nosuch://CANARYtoken")


def qtg(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), words)


def by(*words: str) -> tuple[str, ...]:
    return (*words, "--by", "ada", "--reason", "on it")


def test_an_alert_goes_through_its_life_by_commands(database_url: str) -> None:
    quiet = qtg("alert", "list")
    assert (quiet.exit_code, quiet.output) == (0, "nothing is the matter\n")
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(HALT)
    listed = qtg("alert", "list")
    assert listed.exit_code == 1
    assert "critical  core_halted" in listed.output
    assert "(open since " in listed.output
    shown = qtg("alert", "show", "1").output
    assert shown.startswith("[CRITICAL] the core workers are halted")
    assert "reason: node_dispatcher died" in shown
    assert "runbook: docs/notifications.md#core-halted" in shown
    assert "no message was sent" in shown
    assert "alert 1 is acknowledged by ada until " in qtg(*by("alert", "ack", "1"), "--for", "30m").output
    assert "acknowledged by ada until " in qtg("alert", "list").output
    assert ": on it" in qtg("alert", "show", "1").output
    by_hand = qtg(*by("alert", "resolve", "1"))
    assert by_hand.exit_code != 0
    assert "ends with its condition" in by_hand.output
    with psycopg.connect(database_url) as owner:
        trail = owner.execute(
            "SELECT action, actor, subject_type, subject_id, details ->> 'reason' FROM qtg.audit_outbox"
        ).fetchall()
        lasts = owner.execute(
            "SELECT round(extract(epoch FROM acknowledged_until - now()) / 60)::int FROM qtg.alerts"
        ).fetchone()
    assert trail == [("acknowledge_alert", "ada", "alert", "1", "on it")]
    assert lasts == (30,)


def test_what_was_raised_may_be_resolved_by_hand(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(DRIFT)
        assert "(open since" in qtg("alert", "list").output
        assert qtg(*by("alert", "resolve", "1")).output == "alert 1 is over\n"
        assert qtg("alert", "list").output == "nothing is the matter\n"
        assert "venue:x differs  (resolved " in qtg("alert", "list", "--all").output
        assert "over since" in qtg("alert", "show", "1").output
        for action in ("resolve", "ack"):
            again = qtg(*by("alert", action, "1"))
            assert again.exit_code != 0
            assert "is over" in again.output
        trail = owner.execute("SELECT action, actor FROM qtg.audit_outbox").fetchall()
    assert trail == [("resolve_alert", "ada")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (by("alert", "ack", "7"), "there is no alert 7"),
        (("alert", "show", "7"), "there is no alert 7"),
        ((*by("alert", "ack", "7"), "--for", "soon"), "write 30m, 4h or 2d"),
        ((*by("alert", "ack", "7"), "--for", "31d"), "out of bounds"),
        (("alert", "ack", "7", "--by", " ", "--reason", "x"), "actor: is empty"),
        (("alert", "test", "mars", "--by", "ada"), "there is no channel 'mars'; the inventory has desk, wrong"),
        (("alert", "test", "wrong", "--by", "ada"), "notifications.wrong.url"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    refused = qtg(*words)
    assert refused.exit_code != 0
    assert said in refused.output
    assert "CANARY" not in refused.output


def test_a_channel_is_tried_with_a_real_message(http: HttpReceiver, database_url: str) -> None:
    taken = qtg("alert", "test", "desk", "--by", "ada")
    assert taken.exit_code == 0
    assert "desk took the message" in taken.output
    assert "MG_NOTIFY_ENABLED is false" in taken.output
    assert http.titles == ["[TEST] QTG reaches desk"]
    http.behaviour = fails
    refused = qtg("alert", "test", "desk", "--by", "ada")
    assert refused.exit_code == 1
    assert "desk did not take it" in refused.output
    assert "500" in refused.output
    assert "CANARY" not in refused.output
    with psycopg.connect(database_url) as owner:
        trail = owner.execute("SELECT action, subject_id FROM qtg.audit_outbox").fetchall()
    assert trail == [("try_channel", "desk")] * 2


def test_doctor_says_of_every_channel_whether_it_is_usable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {each.name: each for each in notification_channels(load_settings())}
    assert {name: each.ok for name, each in found.items()} == {
        "notifications": True,
        "channel desk": True,
        "channel wrong": False,
    }
    assert "MG_NOTIFY_ENABLED is false" in found["notifications"].detail
    assert "CANARY" not in str(found)
    monkeypatch.setenv("MG_NOTIFY_ENABLED", "true")
    assert "notifications" not in {each.name for each in notification_channels(load_settings())}
    (tmp_path / "inventory.yaml").write_text("{}")
    [none] = notification_channels(load_settings())
    assert not none.ok
    assert "there is no channel" in none.detail
