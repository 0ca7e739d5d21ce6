"""The stand-in by itself: one venue for each wire that is asked for, with credentials that are made once and kept."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.sandbox.exchange.config import (
    ChainConfig,
    CoinConfig,
    ExchangeConfig,
    NetworkConfig,
    SavedAddress,
    VenueConfig,
)
from qtg_dagster.sandbox.exchange.dialect import Credentials, Dialect, load_dialect
from qtg_dagster.sandbox.keyring import Keyring, write_private

CONTROL_TOKEN = "control.token"  # noqa: S105 - a file name
_BALANCES = {"ETH": "100", "USDC": "1000000"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the venues are to have around them: a chain or none, its USDC, addresses that withdrawals may go to."""

    chain_url: str | None = None
    usdc: str | None = None
    addresses: tuple[str, ...] = ()


def prepare(folder: Path, wires: Sequence[str], around: Surroundings) -> ExchangeConfig:
    """The configuration for these wires; keys, secrets and addresses of an earlier time are the same again."""
    keys = Keyring(folder)
    dialects = {wire: load_dialect(wire) for wire in wires}
    chain, epoch = (None, None) if around.chain_url is None else _chain(around.chain_url)
    try:
        return ExchangeConfig(
            ledger=folder / "ledger.sqlite",
            epoch=epoch,
            control_token=SecretStr(keys.token(CONTROL_TOKEN)),
            chain=chain,
            venues={wire: _venue(keys, dialects, wire, around) for wire in wires},
        )
    except (ValidationError, InvalidInput) as error:
        raise ConfigurationError(f"exchange: {error}") from None


def _venue(keys: Keyring, dialects: dict[str, type[Dialect]], wire: str, around: Surroundings) -> VenueConfig:
    dialect, own = dialects[wire], _credentials(keys, wire, dialects[wire])
    keys.private_key(f"{wire}.hot_wallet.key")
    coins = _coins(keys, wire, dialect, around)
    others = {other: _deposit_address(keys, other) for other in dialects if other != wire}
    named = others | {f"address{number}": address for number, address in enumerate(around.addresses, 1)}
    saved = [
        SavedAddress(name=name, coin=coin, network=dialect.ethereum, address=address)
        for name, address in named.items()
        for coin in coins
    ]
    return VenueConfig(
        wire=wire,
        api_key=own.api_key,
        api_secret=SecretStr(own.api_secret),
        api_passphrase=None if own.api_passphrase is None else SecretStr(own.api_passphrase),
        hot_wallet_key_file=keys.path(f"{wire}.hot_wallet.key"),
        coins=coins,
        initial_balances={coin: _BALANCES[coin] for coin in coins},
        address_book=tuple(saved) if dialect.saves_addresses else (),
    )


def _coins(keys: Keyring, wire: str, dialect: type[Dialect], around: Surroundings) -> dict[str, CoinConfig]:
    """ETH, and USDC where its contract is known or no chain will ever see it."""
    address = _deposit_address(keys, wire)
    ether = NetworkConfig(withdraw_fee="0.001", withdraw_min="0.01", deposit_address=address)
    coins = {"ETH": CoinConfig(name="Ether", decimals=18, networks={dialect.ethereum: ether})}
    contract = around.usdc or (keys.address("usdc.key") if around.chain_url is None else None)
    if contract is not None:
        terms = NetworkConfig(contract=contract, withdraw_fee="1", withdraw_min="2", deposit_address=address)
        coins["USDC"] = CoinConfig(name="USD Coin", decimals=6, networks={dialect.ethereum: terms})
    return coins


def _credentials(keys: Keyring, wire: str, dialect: type[Dialect]) -> Credentials:
    path = keys.path(f"{wire}.key.json")
    if not path.is_file():
        write_private(path, json.dumps(asdict(dialect.new_credentials())))
    return Credentials(**json.loads(path.read_text()))


def _deposit_address(keys: Keyring, wire: str) -> str:
    return keys.address(f"{wire}.deposit.key")


def _chain(url: str) -> tuple[ChainConfig, str]:
    """The chain behind a node from its present height on, and its first block's hash as the ledger's epoch."""
    import httpx

    def ask(method: str, *parameters: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
        return http.post(url, json=body).raise_for_status().json()["result"]

    try:
        with httpx.Client(timeout=10, trust_env=False) as http:
            chain_id, height = int(ask("eth_chainId"), 16), int(ask("eth_blockNumber"), 16)
            first = str(ask("eth_getBlockByNumber", "0x0", False)["hash"])
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"--chain-url: {url} does not answer as a node: {type(error).__name__}") from None
    return ChainConfig(rpc_url=url, chain_id=chain_id, start_block=height), first


async def serve_alone(
    config: ExchangeConfig, folder: Path, say: Callable[[str], None], *, host: str, port: int
) -> None:
    """Serve until stopped; says where each venue listens and which private file holds what a client of it needs."""
    from qtg_dagster.sandbox.exchange.server import serving

    async with serving(config, host=host, port=port) as running:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # the server has handlers too, but only once it has started
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        for key, venue in config.venues.items():
            path = folder / f"{key}.credentials.json"
            write_private(path, json.dumps(_for_clients(venue, f"{running.address}/{key}"), indent=2))
            say(f"{key}: {running.address}/{key} credentials {path}")
        token = folder / CONTROL_TOKEN
        write_private(token, config.control_token.get_secret_value())
        say(f"control: {running.address}/_control token {token}")
        for key, desk in running.exchange.desks.items():
            say(f"{key}: pays out from {desk.address}; fund it")
        if config.chain is None:
            say("no chain: withdrawals are held and never paid out")
        ends = (asyncio.ensure_future(running.ended), asyncio.create_task(stopped.wait()))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        ends[1].cancel()


def _for_clients(venue: VenueConfig, base_url: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "wire": venue.wire,
        "base_url": base_url,
        "api_key": venue.api_key,
        "api_secret": venue.api_secret.get_secret_value(),
    }
    if venue.api_passphrase is not None:
        shown["api_passphrase"] = venue.api_passphrase.get_secret_value()
    shown["deposit_addresses"] = {
        f"{coin}/{name}": network.deposit_address
        for coin, listed in venue.coins.items()
        for name, network in listed.networks.items()
    }
    if venue.address_book:
        shown["address_book"] = {item.name: item.address for item in venue.address_book}
    return shown
