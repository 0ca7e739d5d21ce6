"""The sandbox's chain and exchange, started for the cases, and what they can testify."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.host.paths import state_home
from qtg_dagster.sandbox.chain import CHAIN_ID
from qtg_dagster.sandbox.contracts import mint
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.faucet import Faucet
from qtg_dagster.sandbox.world import World, prepare_world

BLOCK_SECONDS = 0.2
_DEPOSITS = 4
_UNITS = 25_000_000
_GONE = (1, 3, 5)


@dataclass(frozen=True, slots=True)
class Effect:
    """Money that moved, as its provider has it on record."""

    key: str
    amount: str
    at: float


@dataclass(frozen=True, slots=True)
class SandboxWorld:
    """A running chain and exchange, with transactions that observers may look for."""

    world: World
    control: ExchangeControl
    rpc: httpx.AsyncClient
    deposits: tuple[str, ...]  # transaction hashes: 25 USDC each to venue_b's deposit address
    receipts: tuple[str, ...]  # the same to the treasury

    @property
    def inventory_file(self) -> Path:
        return self.world.inventory_file

    def canaries(self) -> list[str]:
        """Secrets that must never be seen in a row or a log."""
        secret = ("treasury.passphrase", "control.token", "venue_a.api_secret", "venue_b.api_secret")
        return [(self.world.folder / name).read_text().strip() for name in secret]

    async def call(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await self.rpc.post("", json=body)).json()["result"]

    async def height(self) -> int:
        return int(await self.call("eth_blockNumber"), 16)

    async def nonce(self) -> int:
        """How many transactions of the treasury are mined."""
        return int(await self.call("eth_getTransactionCount", self.world.treasury, "latest"), 16)

    async def transfers_since(self, height: int) -> list[Effect]:
        """The treasury's mined transactions above a block."""
        found: list[Effect] = []
        for number in range(height + 1, await self.height() + 1):
            block = await self.call("eth_getBlockByNumber", hex(number), True)
            for transaction in block["transactions"]:
                if transaction["from"].lower() == self.world.treasury:
                    units = int(transaction["input"][-64:], 16)
                    amount = f"{units / 10**6:f}"
                    found.append(Effect(transaction["hash"].lower(), amount, int(block["timestamp"], 16)))
        return found

    async def withdrawals_since(self, seq: int) -> list[Effect]:
        """The exchange's withdrawals that were not given back."""
        rows = await self.control.withdrawals("venue_a")
        return [
            Effect(str(row["order_id"]), str(float(row["net"]) + float(row["fee"])), row["applied_ms"] / 1000)
            for row in rows
            if row["seq"] > seq and row["status"] not in _GONE
        ]

    async def last_withdrawal(self) -> int:
        return max((row["seq"] for row in await self.control.withdrawals("venue_a")), default=0)


@asynccontextmanager
async def open_world(home: Path) -> AsyncIterator[SandboxWorld]:
    """Chain, world and exchange, in this order; killed at the end."""
    await asyncio.to_thread(anvil_binary)
    chain_port, exchange_port = _free_port(), _free_port()
    chain_url = f"http://127.0.0.1:{chain_port}"
    async with AsyncExitStack() as stack:
        environment = os.environ | {"QTG_HOME": str(state_home())}
        folder = home / "sandbox" / "chain"
        options = ("--home", str(folder), "--port", str(chain_port), "--block-seconds", str(BLOCK_SECONDS))
        await _start(stack, environment, chain_port, "qtg_dagster.sandbox.chain", *options)
        world = await asyncio.to_thread(prepare_world, home, chain_url, exchange_port)
        config = ("--config", str(world.exchange_config), "--port", str(exchange_port))
        await _start(stack, environment, exchange_port, "qtg_dagster.sandbox.exchange", *config)
        control = await stack.enter_async_context(ExchangeControl(world.exchange_url, world.control_token()))
        rpc = await stack.enter_async_context(httpx.AsyncClient(base_url=chain_url, timeout=20, trust_env=False))
        deposits = await asyncio.to_thread(_mint_many, world, world.deposit_addresses["venue_b"])
        receipts = await asyncio.to_thread(_mint_many, world, world.treasury)
        yield SandboxWorld(world, control, rpc, deposits, receipts)


class _Recording(Faucet):
    """Remembers the hashes of what it sent."""

    def send(self, *, to: str | None, data: str = "0x", value: int = 0) -> dict[str, Any]:
        receipt = super().send(to=to, data=data, value=value)
        self.hashes.append(str(receipt["transactionHash"]).lower())
        return receipt

    def __init__(self, url: str, chain_id: int) -> None:
        super().__init__(url, chain_id)
        self.hashes: list[str] = []


def _mint_many(world: World, recipient: str) -> tuple[str, ...]:
    faucet = _Recording(world.chain_url, CHAIN_ID)
    try:
        for _ in range(_DEPOSITS):
            mint(faucet, world.token, recipient, _UNITS)
        return tuple(faucet.hashes)
    finally:
        faucet.close()


async def _start(stack: AsyncExitStack, environment: dict[str, str], port: int, module: str, *options: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *options, env=environment, stdout=asyncio.subprocess.DEVNULL
    )

    async def end() -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()

    stack.push_async_callback(end)
    for _ in range(6000):
        assert process.returncode is None, f"{module} ended"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
            continue
        writer.close()
        return
    raise AssertionError(f"{module} does not listen")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
