"""A stand-in exchange per test, a real chain where money moves, and the real ccxt client in front."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from qtg_dagster.host.node_tools import anvil_binary, node_module_path
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.server import Serving, serving
from qtg_dagster.secret import Secret

API_KEY = "test-key-of-venue-a"
API_SECRET = "test-secret-of-venue-a"
TOKEN = "test-control-token"
NOWHERE = "http://127.0.0.1:9"  # the discard port: a chain that is down


class Chain:
    """A node of this test's own, and what tests do to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(timeout=10, trust_env=False)

    def call(self, method: str, *parameters: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
        answer = self._http.post(self.url, json=body).json()
        assert "error" not in answer, answer
        return answer["result"]

    def fund(self, address: str, ether: int = 1000) -> None:
        self.call("anvil_setBalance", address, hex(ether * 10**18))

    def balance(self, address: str) -> int:
        return int(self.call("eth_getBalance", address, "latest"), 16)

    def sent(self, address: str) -> int:
        return int(self.call("eth_getTransactionCount", address, "latest"), 16)

    def send(self, **transaction: Any) -> dict[str, Any]:
        """Send from a node's own account and wait for the receipt."""
        sender = self.call("eth_accounts")[9]
        tx_hash = self.call("eth_sendTransaction", {"from": sender, **transaction})
        for _ in range(500):
            receipt: dict[str, Any] | None = self.call("eth_getTransactionReceipt", tx_hash)
            if receipt is not None:
                assert receipt["status"] == "0x1", receipt
                return receipt
            time.sleep(0.01)
        raise AssertionError(f"{tx_hash} was not mined")

    def mine(self, blocks: int = 1) -> None:
        self.call("anvil_mine", hex(blocks))

    def deploy_token(self, owner: str, units: int) -> str:
        """A real ERC-20 whose whole supply belongs to `owner`."""
        from eth_abi.abi import encode

        artifact = node_module_path("@openzeppelin/contracts") / "build/contracts/ERC20PresetFixedSupply.json"
        bytecode = json.loads(artifact.read_text())["bytecode"]
        arguments = encode(["string", "string", "uint256", "address"], ["Test USD", "TUSD", units, owner]).hex()
        return str(self.send(data=bytecode + arguments)["contractAddress"]).lower()

    def next_contract(self) -> str:
        """Address of the contract that the node's own account creates next."""
        import rlp
        from eth_utils.crypto import keccak

        sender = self.call("eth_accounts")[9]
        return "0x" + keccak(rlp.encode([bytes.fromhex(sender[2:]), self.sent(sender)]))[12:].hex()

    def token_balance(self, token: str, owner: str) -> int:
        data = "0x70a08231" + owner[2:].lower().rjust(64, "0")
        return int(self.call("eth_call", {"to": token, "data": data}, "latest"), 16)


@pytest.fixture
def chain() -> Iterator[Chain]:
    """An anvil of this test's own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(anvil_binary()), "--port", str(port), "--chain-id", "31337", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        node = Chain(f"http://127.0.0.1:{port}")
        for _ in range(500):
            try:
                node.call("eth_chainId")
                break
            except httpx.TransportError:
                time.sleep(0.01)
        yield node
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def new_address() -> Callable[[], str]:
    return lambda: "0x" + os.urandom(20).hex()


@pytest.fixture
def hot_wallet(tmp_path: Path) -> tuple[Path, str]:
    """A fresh key's file and its address."""
    from eth_account import Account

    account = Account.create()
    path = tmp_path / "hot_wallet.key"
    path.write_text(account.key.hex())
    path.chmod(0o600)
    return path, str(account.address)


@pytest.fixture
def make_config(
    quick_path: Path, hot_wallet: tuple[Path, str], new_address: Callable[[], str]
) -> Callable[..., ExchangeConfig]:
    """A configuration with one venue that lists ETH and a token USDC; venue fields may be replaced."""

    def make(
        rpc_url: str = NOWHERE, *, token: str | None = None, network: dict[str, Any] | None = None, **venue: Any
    ) -> ExchangeConfig:
        deposit = new_address()
        terms = {"withdraw_fee": "0.001", "withdraw_min": "0.01", "withdraw_step": "0.00001", "withdraw_max": "50"}
        usdc = {"withdraw_fee": "1", "withdraw_min": "2", "contract": token or new_address()}
        fields = {
            "api_key": API_KEY,
            "api_secret": API_SECRET,
            "hot_wallet_key_file": hot_wallet[0],
            "coins": {
                "ETH": {"decimals": 18, "networks": {"ETH": {**terms, "deposit_address": deposit, **(network or {})}}},
                "USDC": {"decimals": 6, "networks": {"ETH": {**usdc, "deposit_address": deposit, **(network or {})}}},
            },
            "initial_balances": {"ETH": "100", "USDC": "5000"},
        }
        return ExchangeConfig.model_validate(
            {
                "ledger": quick_path / "ledger.sqlite",
                "control_token": TOKEN,
                "chain": {"rpc_url": rpc_url, "chain_id": 31337, "poll_seconds": 0.02},
                "venues": {"venue_a": fields | venue},
            }
        )

    return make


@pytest.fixture
async def paper_exchange(make_config: Callable[..., ExchangeConfig]) -> AsyncIterator[Serving]:
    """A stand-in whose chain is down: nothing is paid out, everything else works."""
    async with serving(make_config()) as running:
        yield running


@pytest.fixture
async def paying_exchange(
    make_config: Callable[..., ExchangeConfig], chain: Chain, hot_wallet: tuple[Path, str]
) -> AsyncIterator[Serving]:
    """A stand-in with a funded hot wallet on a real chain."""
    chain.fund(hot_wallet[1])
    token = chain.deploy_token(hot_wallet[1], 10_000 * 10**6)
    async with serving(make_config(chain.url, token=token)) as running:
        yield running


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Any]]:
    """Make real ccxt clients of a venue, over one session that is closed after the test."""
    import aiohttp
    import ccxt.async_support as ccxt

    session = aiohttp.ClientSession()

    def make(address: str, *, key: str = API_KEY, secret: str = API_SECRET, **options: Any) -> Any:
        settings = {"session": session, "enableRateLimit": False, "timeout": 5000, **options}
        client = ccxt.binance({"apiKey": key, "secret": secret, **settings})
        for name, url in client.urls["api"].items():
            if isinstance(url, str):
                client.urls["api"][name] = re.sub(r"^https?://[^/]+", f"{address}/venue_a", url)
        return client

    yield make
    await session.close()


@pytest.fixture
async def open_control() -> AsyncIterator[Callable[[str], ExchangeControl]]:
    """Make clients of a stand-in's control API."""
    controls: list[ExchangeControl] = []

    def make(address: str) -> ExchangeControl:
        controls.append(ExchangeControl(address, Secret(TOKEN)))
        return controls[-1]

    yield make
    for control in controls:
        await control.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]:
    """Ask again until the answer is true, for at most 20 s; returns it."""

    async def wait(question: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(1000):
            answer = await question()
            if answer:
                return answer
            await asyncio.sleep(0.02)
        raise AssertionError("it never came true")

    return wait
