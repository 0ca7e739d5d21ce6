"""`qtg limit`, and what `qtg signer` says of identities, on a real database."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli

INVENTORY = "assets: {USDC: {symbol: USDC, decimals: 6}}\n"


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(inventory))


def qtg(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), words)


def test_a_limit_goes_through_its_life_by_commands(database_url: str) -> None:
    assert qtg("limit", "list").output == "no limit stands\n"
    told = "USDC: 250000 USDC left of 250000 USDC today (UTC); set by ada: policy 7\n"
    assert qtg("limit", "set", "USDC", "250000", "--by", "ada", "--reason", "policy 7").output == told
    assert qtg("limit", "list").output == told
    assert qtg("limit", "clear", "USDC", "--by", "grace", "--reason", "over").output == "USDC has no limit any more\n"
    with psycopg.connect(database_url) as connection:
        trail = connection.execute("SELECT action, actor FROM qtg.audit_outbox ORDER BY id").fetchall()
    assert trail == [("set_velocity_limit", "ada"), ("clear_velocity_limit", "grace")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("limit", "set", "DOGE", "1", "--by", "ada", "--reason", "x"), "asset"),
        (("limit", "set", "USDC", "1e3", "--by", "ada", "--reason", "x"), "daily"),
        (("limit", "clear", "USDC", "--by", "ada", "--reason", "x"), "no velocity limit stands on USDC"),
        (("signer", "enrol", "signer.local.x", "0x" + "11" * 20, "--by", "ada", "--reason", "x"), "signer.local.x"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    refused = qtg(*words)
    assert refused.exit_code != 0
    assert said in refused.output


def test_without_a_signer_the_roster_is_empty() -> None:
    assert qtg("signer", "list").output == "no signer is known yet\n"
