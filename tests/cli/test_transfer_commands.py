"""`qtg transfer` on a real database, from a request to its end."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli

ADDRESS = "0x" + "11" * 20
INVENTORY = f"""
assets: {{USDC: {{symbol: USDC, decimals: 6}}}}
chains: {{"eip155:31337": {{name: Local, rpc_urls: ["http://127.0.0.1:1"], native_asset: USDC}}}}
accounts:
  treasury: {{chain: "eip155:31337", address: "{ADDRESS}"}}
  vault: {{chain: "eip155:31337", address: "0x{"22" * 20}"}}
routes:
  way: {{from: treasury, to: vault, assets: [USDC], template_key: by_hand}}
"""
TEMPLATE = """
template_key: by_hand
title: By hand
parameters: [{name: amount, type: amount, asset: USDC}]
risk_controls: {hard_cap: "1000"}
nodes: [{node_key: manual_send, node_kind: manual, action_type: send}]
"""
WHO = ("--by", "grace", "--reason", "seen to")


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(tmp_path / "inventory.yaml"))


@pytest.fixture(autouse=True)
async def _template(_machine: None) -> None:
    from qtg_dagster.composition import open_platform
    from qtg_dagster.engine.requests import publish_template
    from qtg_dagster.jobs.movements import read_plans
    from qtg_dagster.settings import load_settings

    async with open_platform(load_settings(), pool_size=1) as platform:
        [plan] = read_plans(TEMPLATE, platform.engine.inventory)
        await publish_template(platform.engine, plan)


def qtg(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), words)


def asked(*more: str) -> tuple[str, str]:
    """The ids of a new transfer and its movement."""
    done = qtg("transfer", "request", "25", "USDC", "treasury", "account:vault", "--by", "ada", *more)
    assert done.exit_code == 0, done.output
    ids = re.findall(r"[0-9a-f-]{36}", done.output)
    assert "MOVING; movement" in done.output
    assert "`qtg transfer follow-up` looks after it" in done.output
    return ids[0], ids[1]


def test_a_transfer_goes_through_its_life_by_commands(database_url: str) -> None:
    assert qtg("transfer", "list").output == "there is no capital transfer yet\n"
    transfer, movement = asked("--reason", "margin", "--key", "margin 7", "--wanted-by", "2090-01-01T00:00:00Z")
    assert asked("--reason", "margin", "--key", "margin 7", "--wanted-by", "2090-01-01T00:00:00Z")[0] == transfer
    shown = qtg("transfer", "show", transfer).output
    assert "25 USDC account:treasury -> account:vault" in shown
    assert "asked for by ada: margin, wanted by 2090-01-01 00:00:00 UTC" in shown
    assert f"attempt 1: movement {movement}, by_hand by route way" in shown
    assert "it waits for approval by anybody other than ada" in shown
    assert "possible now: cancel" in shown
    assert qtg("movement", "approve", movement, "--by", "grace").exit_code == 0
    assert "manual_send is READY since" in qtg("transfer", "show", transfer).output
    assert qtg("movement", "complete", movement, "manual_send", "--by", "grace", "--note", "done").exit_code == 0
    assert qtg("transfer", "follow-up").output == "looked at 1: 1 settled\n"
    assert f"{transfer}  SETTLED" in qtg("transfer", "list").output
    assert qtg("transfer", "list", "--open").output == "no capital transfer is open\n"


def test_what_stopped_is_shown_with_what_to_do_and_tried_again(database_url: str) -> None:
    transfer, movement = asked()
    assert qtg("movement", "reject", movement, *WHO).exit_code == 0
    assert qtg("transfer", "follow-up").output == "looked at 1: 1 stopped\n"
    shown = qtg("transfer", "show", transfer).output
    assert f"needs attention (ended): movement {movement} is REJECTED; nothing of it moved" in shown
    assert "to do: `qtg transfer retry` makes another movement" in shown
    assert "possible now: retry, cancel" in shown
    assert "! ended" in qtg("transfer", "list", "--open").output
    again = qtg("transfer", "retry", transfer, *WHO).output
    assert f"{transfer} MOVING; movement" in again
    assert movement not in again
    assert qtg("transfer", "cancel", transfer, *WHO).output == f"{transfer} CANCELLED\n"
    with psycopg.connect(database_url) as connection:
        states = connection.execute("SELECT request_state FROM qtg.movement_requests ORDER BY created_at").fetchall()
    assert states == [("REJECTED",), ("CANCELLED",)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("request", "25", "USDC", "vault", "treasury", "--by", "ada"), "no route carries USDC from account:vault"),
        (("request", "25", "USDC", "kraken", "vault", "--by", "ada"), "source: 'kraken' is no venue"),
        (("request", "2000", "USDC", "treasury", "vault", "--by", "ada"), "hard cap"),
        (("request", "25", "USDC", "treasury", "vault", "--by", "ada", "--wanted-by", "noon"), "wanted_by"),
        (("show", "nobody"), "there is no capital transfer 'nobody'"),
        (("retry", "nobody", *WHO), "there is no capital transfer 'nobody'"),
        (("close", "nobody", "--by", "grace", "--reason", " "), "reason: is empty"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    refused = qtg("transfer", *words)
    assert refused.exit_code == 1
    assert said in refused.output
