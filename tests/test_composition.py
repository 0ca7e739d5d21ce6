"""A platform gives its connections back, however it ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from qtg_dagster import composition
from qtg_dagster.composition import open_platform
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm import EvmLane
from qtg_dagster.lanes.evm.arrivals import Arrivals
from qtg_dagster.lanes.evm.payments import Payments
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database

SETTINGS = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the parts that were closed."""
    names: list[str] = []

    async def close_database(_self: Database) -> None:
        names.append("database")

    async def close_chains(_self: EvmLane) -> None:
        names.append("chains")
        raise OSError("this one fails")

    monkeypatch.setattr(composition.Database, "close", close_database)
    monkeypatch.setattr(EvmLane, "close", close_chains)
    return names


async def test_a_part_that_fails_to_close_keeps_no_other_open(closed: list[str]) -> None:
    with pytest.raises(OSError, match="this one fails"):
        async with open_platform(SETTINGS, inventory=Inventory()):
            assert closed == []
    assert closed == ["chains", "database"]


async def test_a_platform_that_cannot_be_built_leaves_nothing_open(closed: list[str]) -> None:
    def refuse(_executors: ExecutorRegistry, _inventory: Inventory) -> None:
        raise LookupError("no such executor")

    with pytest.raises((LookupError, OSError)):
        async with open_platform(SETTINGS, inventory=Inventory(), register_more=refuse):
            pass
    assert closed == ["chains", "database"]


async def test_who_withdraws_can_ask_the_platforms_own_chains_whom_a_transaction_paid_and_what_arrived() -> None:
    async with open_platform(SETTINGS, inventory=Inventory()) as platform:
        action: Any = platform.executors.resolve("exec.cex.withdrawal_action")
        assert isinstance(action._absence._witness, Arrivals)
        assert isinstance(action._payments, Payments)
        assert action._payments._chains is platform.nonce_chain._chains  # type: ignore[attr-defined]


def test_a_platform_with_chains_keeps_pythons_recursion_limit() -> None:
    code = """
import asyncio, sys
from qtg_dagster.composition import open_platform
from qtg_dagster.inventory import ChainEntry, Inventory
from qtg_dagster.settings import Settings
chain = ChainEntry(name="one", rpc_urls=("http://127.0.0.1:1",), native_asset="ETH")
inventory = Inventory(assets={"ETH": {"symbol": "ETH", "decimals": 18}}, chains={"eip155:1": chain})
async def main():
    async with open_platform(Settings(database_url="postgresql://nowhere/d"), inventory=inventory):
        import eth_account, web3
        print(sys.getrecursionlimit())
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1000", done.stderr[-800:]
