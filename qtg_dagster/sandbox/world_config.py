"""The two documents that the sandbox is described by: the exchange's config and QTG's inventory."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import SecretStr

from qtg_dagster.inventory import Inventory
from qtg_dagster.sandbox.chain import CHAIN_ID
from qtg_dagster.sandbox.contracts import USDC_DECIMALS
from qtg_dagster.sandbox.exchange.config import ChainConfig, CoinConfig, ExchangeConfig, NetworkConfig, VenueConfig
from qtg_dagster.sandbox.keyring import Keyring
from qtg_dagster.sandbox.world import TREASURY, TREASURY_SIGNER, VENUES, World

NETWORK = "ETH"  # the venues' name for the sandbox chain
SIGNER_CAP_USDC = "10000"
CALLBACK_SECRET = "callback.secret"  # noqa: S105 - a file name
_BALANCES = {"venue_a": {"USDC": "1000000", "ETH": "100"}, "venue_b": {"USDC": "50000", "ETH": "10"}}
_BOOK_DECIMALS = 8
_ETH_DECIMALS = 18


def exchange_config(world: World) -> ExchangeConfig:
    """Both venues, on one chain, with a ledger of this epoch."""
    return ExchangeConfig(
        ledger=world.ledger,
        epoch=world.epoch,
        control_token=SecretStr(world.control_token().expose()),
        chain=ChainConfig(rpc_url=world.chain_url, chain_id=CHAIN_ID, start_block=world.start_block),
        venues={venue: _venue(world, venue) for venue in VENUES},
    )


def _venue(world: World, venue: str) -> VenueConfig:
    keys = Keyring(world.folder)
    address = world.deposit_addresses[venue]
    usdc = NetworkConfig(
        contract=world.token,
        decimals=USDC_DECIMALS,
        withdraw_fee="1",
        withdraw_min="10",
        confirmations=2,
        deposit_address=address,
    )
    ether = NetworkConfig(withdraw_fee="0.001", withdraw_min="0.01", confirmations=2, deposit_address=address)
    others = tuple(other for key, other in world.deposit_addresses.items() if key != venue)
    return VenueConfig(
        api_key=keys.token(f"{venue}.api_key"),
        api_secret=SecretStr(keys.token(f"{venue}.api_secret")),
        hot_wallet_key_file=keys.path(f"{venue}.hot_wallet.key"),
        coins={
            "USDC": CoinConfig(name="USD Coin", decimals=_BOOK_DECIMALS, networks={NETWORK: usdc}),
            "ETH": CoinConfig(name="Ether", decimals=_ETH_DECIMALS, networks={NETWORK: ether}),
        },
        initial_balances=_BALANCES[venue],
        address_whitelist=(world.treasury, *others),
    )


def inventory_yaml(world: World) -> str:
    """The inventory as text, checked by reading it back; it names secrets' files and holds none."""
    keys = Keyring(world.folder)
    keys.token(CALLBACK_SECRET)
    document: dict[str, Any] = {
        "assets": {
            "ETH": {"symbol": "ETH", "decimals": _ETH_DECIMALS},
            "USDC": {"symbol": "USDC", "decimals": USDC_DECIMALS},
        },
        "chains": {
            world.chain: {
                "name": "Sandbox chain",
                "rpc_urls": [world.chain_url],
                "native_asset": "ETH",
                "tokens": {"USDC": world.token},
                "confirmations": 1,
            }
        },
        "venues": {
            venue: {
                "wire": "binance",
                "base_url": f"{world.exchange_url}/{venue}",
                "api_key": {"file": str(keys.path(f"{venue}.api_key"))},
                "api_secret": {"file": str(keys.path(f"{venue}.api_secret"))},
                "assets": {"ETH": "ETH", "USDC": "USDC"},
                "networks": {world.chain: NETWORK},
                "deposit_addresses": {world.chain: world.deposit_addresses[venue]},
                "settle_seconds": 5,
            }
            for venue in VENUES
        },
        "accounts": {TREASURY: {"chain": world.chain, "address": world.treasury, "signer": TREASURY_SIGNER}},
        "routes": {
            "venue_a_to_venue_b": {
                "from": "venue_a",
                "to": "venue_b",
                "assets": ["USDC"],
                "template_key": "cex_chain_cex_usdc",
            },
            "treasury_to_venue_b": {
                "from": TREASURY,
                "to": "venue_b",
                "assets": ["USDC"],
                "template_key": "chain_transfer_usdc",
            },
        },
        "signers": {
            TREASURY_SIGNER: {
                "keystore": str(keys.path("treasury.keystore.json")),
                "passphrase": {"file": str(keys.path("treasury.passphrase"))},
                "policy": {
                    "destinations": sorted(world.deposit_addresses.values()),
                    "caps": {"USDC": SIGNER_CAP_USDC, "ETH": "1"},
                },
            }
        },
        # A receiver of one's own can be tried on this machine.
        "callbacks": {
            "secret": {"file": str(keys.path(CALLBACK_SECRET))},
            "allowed_hosts": ["127.0.0.1", "localhost"],
        },
    }
    Inventory.model_validate(document)
    return yaml.safe_dump(document, sort_keys=False)
