"""A stand-in that speaks one wire, and the real ccxt client of it, for every suite and every dialect."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.dialect import known_wires
from qtg_dagster.sandbox.exchange.server import Serving, serving
from qtg_dagster.secret import Secret
from tests.sandbox.exchange.dialects.driver import Driver

TOKEN = "test-control-token"
_TERMS = {"withdraw_fee": "0.001", "withdraw_min": "0.01", "withdraw_step": "0.00001", "withdraw_max": "200"}


def drivers() -> list[Driver]:
    """A driver for every dialect that there is: one without fails here."""
    found: list[Driver] = [
        import_module(f"tests.sandbox.exchange.dialects.drive_{wire}").DRIVER for wire in known_wires()
    ]
    assert [driver.wire for driver in found] == list(known_wires())
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that takes a `driver` over all dialects, with a `spoil` or `case` over those each one has."""
    if "driver" not in metafunc.fixturenames:
        return
    for name, of in (("spoil", "spoilt"), ("case", "refusals")):
        if name in metafunc.fixturenames:
            pairs = [(driver, item) for driver in drivers() for item in getattr(driver, of)]
            metafunc.parametrize(("driver", name), pairs, ids=[f"{driver.wire}-{item}" for driver, item in pairs])
            return
    metafunc.parametrize("driver", drivers(), ids=lambda driver: driver.wire)


@dataclass
class Venue:
    """A running stand-in of one wire, its side door, and clients of it."""

    driver: Driver
    running: Serving
    control: ExchangeControl
    connect: Callable[..., Any]

    async def outcomes(self, role: str) -> list[str]:
        return [row["outcome"] for row in await self.control.requests(endpoint=role)]

    async def executed(self) -> list[dict[str, Any]]:
        return await self.control.withdrawals("venue_a")


@pytest.fixture
def dialect_config(
    quick_path: Path, hot_wallet: tuple[Path, str], new_address: Callable[[], str]
) -> Callable[..., ExchangeConfig]:
    """A configuration with one venue of a wire that lists ETH and USDC; without a chain unless one is given."""

    def make(driver: Driver, *, chain: Mapping[str, Any] | None = None, **fields: Any) -> ExchangeConfig:
        deposit = new_address()
        usdc = {"withdraw_fee": "1", "withdraw_min": "2", "contract": new_address(), "deposit_address": deposit}
        venue = {
            "wire": driver.wire,
            "hot_wallet_key_file": hot_wallet[0],
            "coins": {
                "ETH": {"decimals": 18, "networks": {driver.network: {**_TERMS, "deposit_address": deposit}}},
                "USDC": {"decimals": 6, "networks": {driver.network: usdc}},
            },
            "initial_balances": {"ETH": "100", "USDC": "5000"},
            **driver.venue_fields,
            **fields,
        }
        ledger = quick_path / "ledger.sqlite"
        return ExchangeConfig.model_validate(
            {"ledger": ledger, "control_token": TOKEN, "chain": chain, "venues": {"venue_a": venue}}
        )

    return make


@pytest.fixture
async def open_venue(dialect_config: Callable[..., ExchangeConfig]) -> AsyncIterator[Callable[..., Any]]:
    """Start a stand-in of a wire."""
    import aiohttp
    import ccxt.async_support as ccxt

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def start(driver: Driver, **config: Any) -> Venue:
            running = await stack.enter_async_context(serving(dialect_config(driver, **config)))
            control = await stack.enter_async_context(ExchangeControl(running.address, Secret(TOKEN)))

            def connect(**settings: Any) -> Any:
                common = {"session": session, "enableRateLimit": False, "timeout": 5000}
                client = getattr(ccxt, driver.wire)({**common, **driver.settings, **settings})
                client.urls["api"] = _moved(client.urls["api"], f"{running.address}/venue_a")
                return client

            return Venue(driver, running, control, connect)

        yield start


@pytest.fixture
async def venue(driver: Driver, open_venue: Callable[..., Any]) -> Venue:
    """A healthy stand-in without a chain."""
    opened: Venue = await open_venue(driver)
    return opened


def _moved(value: Any, to: str) -> Any:
    if isinstance(value, dict):
        return {name: _moved(item, to) for name, item in value.items()}
    return re.sub(r"^https?://[^/]+", to, value) if isinstance(value, str) else value
