"""The lane with the real ccxt client at a stand-in that speaks the wire of a bench."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import CexLane, register
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import WITHDRAW, ExchangeControl
from qtg_dagster.sandbox.exchange.server import Serving, serving
from qtg_dagster.secret import Secret
from tests.lanes.cex.conftest import MovableClock
from tests.lanes.cex.venues.bench import API_KEY, DESTINATION, Bench

CHAIN = "eip155:31337"
TOKEN = "control-token-of-the-test"
_TERMS = {"withdraw_fee": "0.001", "withdraw_min": "0.01", "withdraw_step": "0.00001"}


class Desk:
    """The lane at one venue, and the stand-in's side door."""

    def __init__(
        self,
        bench: Bench,
        lane: CexLane,
        executors: ExecutorRegistry,
        control: ExchangeControl,
        running: Serving,
        again: Callable[..., Desk],
    ) -> None:
        self.bench, self.lane, self.control = bench, lane, control
        self.address, self.exchange = running.address, running.exchange
        self._executors = executors
        #: Another lane at the same venue; keywords change the inventory's entry.
        self.again = again

    def executor(self, role: str) -> Any:
        return self._executors.resolve(f"exec.cex.{role}")

    async def posts(self) -> int:
        """Withdrawal requests of ours that reached the venue."""
        return len(await self.control.requests(venue="venue_a", endpoint=WITHDRAW))

    async def executed(self) -> list[dict[str, Any]]:
        """The venue's own book."""
        return await self.control.withdrawals("venue_a")


@pytest.fixture
async def open_desk(
    tmp_path: Path, quick_path: Path, monkeypatch: pytest.MonkeyPatch, clock: MovableClock
) -> AsyncIterator[Callable[..., Awaitable[Desk]]]:
    """Start the stand-in of a bench and register the lane at it, which waits for an answer as long as its patience."""
    from eth_account import Account

    key_file = tmp_path / "hot.key"
    key_file.write_text(Account.create().key.hex())
    key_file.chmod(0o600)
    async with AsyncExitStack() as stack:

        async def start(bench: Bench, witness: Any = None, patience: float = 1, **entry: Any) -> Desk:
            monkeypatch.setenv("DESK_KEY", API_KEY)
            monkeypatch.setenv("DESK_SECRET", bench.secret)
            if bench.passphrase is not None:
                monkeypatch.setenv("DESK_PASSPHRASE", bench.passphrase)
            running = await stack.enter_async_context(serving(_exchange(bench, quick_path, key_file)))
            control = await stack.enter_async_context(ExchangeControl(running.address, Secret(TOKEN)))

            def desk(**fields: Any) -> Desk:
                inventory = Inventory.model_validate(_inventory(bench, f"{running.address}/venue_a", entry | fields))
                executors = ExecutorRegistry()
                limits = {"timeout_seconds": patience, "health_seconds": patience}
                lane = register(executors, inventory, clock=clock, arrivals=witness, **limits)
                stack.push_async_callback(lane.close)
                return Desk(bench, lane, executors, control, running, desk)

            return desk()

        yield start


def _exchange(bench: Bench, home: Path, key_file: Path) -> ExchangeConfig:
    coin = {"decimals": 18, "networks": {bench.network: {**_TERMS, "deposit_address": "0x" + "cd" * 20}}}
    venue = {
        "wire": bench.wire,
        "api_key": API_KEY,
        "api_secret": bench.secret,
        "hot_wallet_key_file": key_file,
        "coins": {"ETH": coin},
        "initial_balances": {"ETH": "100"},
        **bench.stand_in,
    }
    fields = {"ledger": home / "ledger.sqlite", "control_token": TOKEN, "chain": None, "venues": {"venue_a": venue}}
    return ExchangeConfig.model_validate(fields)


def _inventory(bench: Bench, base_url: str, entry: dict[str, Any]) -> dict[str, Any]:
    venue = {
        "wire": bench.wire,
        "base_url": base_url,
        "api_key": {"env": "DESK_KEY"},
        "api_secret": {"env": "DESK_SECRET"},
        "assets": {"ETH": "ETH"},
        "networks": {CHAIN: bench.network},
        "settle_seconds": 7,
        **bench.entry,
        **entry,
    }
    chain = {"name": "Local", "rpc_urls": ["http://127.0.0.1:9"], "native_asset": "ETH"}
    assets = {"ETH": {"symbol": "ETH", "decimals": 18}}
    return {"assets": assets, "chains": {CHAIN: chain}, "venues": {"venue_a": venue}}


@pytest.fixture
def order(work_order: Callable[..., ExecutionContext]) -> Callable[..., ExecutionContext]:
    """A withdrawal of 1.5 ETH; keywords change its config."""

    def make(context: dict[str, Any] | None = None, **config: Any) -> ExecutionContext:
        terms = {"asset": "ETH", "chain": CHAIN, "amount": "1.5", "destination": DESTINATION}
        return work_order(context, **{**terms, **config})

    return make
