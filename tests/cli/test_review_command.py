"""`qtg movement review` on a real database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli
from qtg_dagster.composition import open_platform
from qtg_dagster.engine.breakers import open_breaker
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import create_movement, publish_template
from qtg_dagster.host.environment import machine_settings
from qtg_dagster.inventory import Inventory
from tests.treasury.review_cases import CHAIN, OURS, THEIRS, sample_plan

INVENTORY = f"""
assets:
  USDC: {{symbol: USDC, decimals: 6}}
  ETH: {{symbol: ETH, decimals: 18}}
chains:
  "{CHAIN}":
    name: Nowhere
    rpc_urls: ["http://127.0.0.1:1/v2/{"k" * 32}"]
    native_asset: ETH
    tokens: {{USDC: "{THEIRS}"}}
accounts:
  treasury: {{chain: "{CHAIN}", address: "{OURS}", signer: signer.local.treasury}}
signers:
  signer.local.treasury: {{keystore: /nowhere/keystore.json, passphrase: {{file: /nowhere/passphrase}}}}
"""


@pytest.fixture
def request_id(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A transfer on a chain that does not answer, under an open breaker."""
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(tmp_path / "inventory.yaml"))
    nodes = [node for node in sample_plan().model_dump(mode="json")["nodes"] if node["node_key"] == "transfer"]
    plan = sample_plan(nodes=nodes, edges=[])

    async def create() -> str:
        inventory = Inventory.load(tmp_path / "inventory.yaml")
        async with open_platform(machine_settings(), pool_size=2, inventory=inventory) as platform:
            await publish_template(platform.engine, plan)
            await open_breaker(platform.engine, "lane:evm", actor="grace", reason="maintenance")
            order = MovementOrder(template_key="sample", parameters={"amount": "7"}, requested_by="ada", reason="rent")
            return (await create_movement(platform.engine, order)).request_id

    return asyncio.run(create())


def review(request_id: str) -> Result:
    return CliRunner().invoke(cli.build(), ["movement", "review", request_id])


def test_warnings_come_first_and_what_cannot_be_read_hides_nothing(request_id: str, database_url: str) -> None:
    shown = review(request_id)
    assert shown.exit_code == 0, shown.output
    warned, _, rest = shown.output.partition("MOVEMENT\n")
    assert warned.startswith("WARNINGS\n  the breaker on lane:evm holds back transfer: open since ")
    assert f"balances at {CHAIN} are not known: 127.0.0.1" in warned
    assert "transfer: the fee is not known: 127.0.0.1" in warned
    assert "signer.local.treasury: nobody has enrolled it" in warned
    assert "k" * 32 not in shown.output
    for part in ("PLAN", "DESTINATIONS", "DAILY LIMITS", "BALANCES", "FEES", "HEALTH", "SIGNERS", "BREAKERS"):
        assert f"{part}\n" in rest
    assert "amount = 7" in rest
    assert "ada: rent" in rest
    with psycopg.connect(database_url) as connection:
        decided = connection.execute("SELECT count(*) FROM qtg.movement_approvals").fetchone()
        reserved = connection.execute("SELECT count(*) FROM qtg.evm_nonce_reservation").fetchone()
    assert decided == reserved == (0,)


def test_a_movement_that_is_not_there_is_said_in_a_line(request_id: str) -> None:
    refused = review(request_id[:-4] + "0000")
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: there is no movement request")
