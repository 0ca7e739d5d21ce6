"""The sandbox world is made once, kept, and made anew as a whole when one of its memories is gone."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.plans import graph_hash
from qtg_dagster.executors.signers.local import build_signer
from qtg_dagster.inventory import Inventory
from qtg_dagster.sandbox import contracts
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.faucet import Faucet
from qtg_dagster.sandbox.plans import sample_plans
from qtg_dagster.sandbox.world import prepare_world


def test_a_prepared_world_is_funded_and_described(chain: Any, faucet_at: Callable[[str], Faucet]) -> None:
    world = prepare_world(chain.home, chain.url, 18999)
    faucet = faucet_at(chain.url)
    assert contracts.balance(faucet, world.token, world.treasury) == 1_000_000 * 10**6
    for wallet in world.hot_wallets.values():
        assert contracts.balance(faucet, world.token, wallet) > 10**12
    config = ExchangeConfig.load(world.exchange_config)
    inventory = Inventory.load(world.inventory_file)
    for key, venue in config.venues.items():
        ours = inventory.venues[key]
        assert ours.api_key.read("key").expose() == venue.api_key
        assert ours.api_secret.read("secret").expose() == venue.api_secret.get_secret_value()
        assert ours.base_url == f"http://127.0.0.1:18999/{key}"
        assert venue.coins["USDC"].networks["ETH"].contract == world.token
        assert venue.coins["USDC"].networks["ETH"].deposit_address == ours.deposit_addresses[world.chain]


def test_preparing_again_changes_nothing_but_ports(chain: Any) -> None:
    first = prepare_world(chain.home, chain.url, 18999)
    keystore = (first.folder / "treasury.keystore.json").read_text()
    second = prepare_world(chain.home, chain.url, 19000)
    assert second.exchange_url == "http://127.0.0.1:19000"
    assert (second.epoch, second.token, second.treasury) == (first.epoch, first.token, first.treasury)
    assert second.deposit_addresses == first.deposit_addresses
    assert (second.folder / "treasury.keystore.json").read_text() == keystore


def test_secrets_are_their_owners_alone(chain: Any) -> None:
    world = prepare_world(chain.home, chain.url, 18999)
    files = [*world.folder.iterdir(), world.inventory_file]
    assert len(files) > 10
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    inventory = world.inventory_file.read_text()
    for secret in world.folder.glob("*_*[yt]"):
        assert secret.read_text().strip() not in inventory


def test_a_chain_that_was_lost_begins_a_new_epoch(start_chain: Callable[[], Any]) -> None:
    chain = start_chain()
    first = prepare_world(chain.home, chain.url, 18999)
    chain.stop()
    shutil.rmtree(chain.home / "sandbox" / "chain")
    second = prepare_world(chain.home, start_chain().url, 18999)
    assert second.epoch != first.epoch
    assert second.treasury != first.treasury, "a new life has new accounts, so old nonces mean nothing to it"
    assert second.ledger != first.ledger
    assert (first.folder / "treasury.keystore.json").is_file(), "nothing of the old one is touched"


def test_books_that_were_lost_after_a_payout_begin_a_new_epoch(chain: Any) -> None:
    first = prepare_world(chain.home, chain.url, 18999)
    assert prepare_world(chain.home, chain.url, 18999).epoch == first.epoch, "an exchange that never ran lost nothing"
    _pay_from_hot_wallet(first, chain.url)
    sqlite3.connect(first.ledger).close()
    first.ledger.touch()
    assert prepare_world(chain.home, chain.url, 18999).epoch == first.epoch
    first.ledger.unlink()
    assert prepare_world(chain.home, chain.url, 18999).epoch != first.epoch


def _pay_from_hot_wallet(world: Any, url: str) -> None:
    from eth_account import Account

    key = (world.folder / "venue_a.hot_wallet.key").read_text().strip()
    payer = Faucet(url, 31337)
    payer._account = Account.from_key(key)
    payer.address = world.hot_wallets["venue_a"]
    payer.send(to="0x" + "5a" * 20, value=1)
    payer.close()


def test_another_chain_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not answer"):
        prepare_world(tmp_path, "http://127.0.0.1:9", 18999)


async def test_the_treasurys_signer_opens(chain: Any) -> None:
    world = prepare_world(chain.home, chain.url, 18999)
    inventory = Inventory.load(world.inventory_file)

    class Journal:
        async def record(self, **_: Any) -> None:
            raise AssertionError

    signer = build_signer("signer.local.treasury", inventory.signers["signer.local.treasury"], inventory, Journal())
    report = await signer.health()
    assert report is not None
    assert (report.health_state, report.signer_address) == ("healthy", world.treasury)
    assert str((await signer._open()).address).lower() == world.treasury


def test_the_sample_templates_are_plans_with_limits(chain: Any) -> None:
    world = prepare_world(chain.home, chain.url, 18999)
    plans = {plan.template_key: plan for plan in sample_plans(Inventory.load(world.inventory_file))}
    assert set(plans) == {"cex_chain_cex_usdc", "chain_transfer_usdc", "chain_transfer_manual_check"}
    for plan in plans.values():
        assert plan.risk_controls.hard_cap is not None
        allowed = set(plan.risk_controls.destination_allowlist)
        assert {node.config["destination"] for node in plan.nodes if "destination" in node.config} <= allowed
        assert all(node.executor_key or node.node_key.startswith("manual_") for node in plan.nodes)
    assert len({graph_hash(plan) for plan in plans.values()}) == 3


def test_the_sample_templates_need_the_sandboxs_inventory() -> None:
    with pytest.raises(ConfigurationError, match="venue_a"):
        sample_plans(Inventory())
