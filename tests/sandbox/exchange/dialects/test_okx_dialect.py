"""What OKX's wire has that no other has: pages by time, chains named with their coin, tags in addresses, headers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from tests.sandbox.exchange.dialects.drive_okx import DRIVER
from tests.sandbox.exchange.dialects.driver import Order

GOOD = {"ccy": "ETH", "chain": "ETH-ERC20", "amt": "1.5", "dest": "4", "toAddr": Order().address, "clientId": "leg1"}


@pytest.fixture
async def okx(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"chain": "USDC-ERC20"}, "51000"),
        ({"chain": "ERC20"}, "51000"),
        ({"dest": "3"}, "51000"),
        ({"dest": ""}, "50014"),
        ({"clientId": "leg-1"}, "51000"),
        ({"clientId": "x" * 33}, "51000"),
        ({"toAddr": Order().address + ":7"}, "58222"),
        ({"amt": 1.5}, "51000"),
    ],
)
async def test_a_withdrawal_is_refused_by_what_is_wrong_with_it(okx: Any, change: dict[str, Any], code: str) -> None:
    client = okx.connect()
    with pytest.raises(ccxt.BaseError, match=f'"code": "{code}"'):
        await client.privatePostAssetWithdrawal(GOOD | change)
    assert await okx.executed() == []
    (accepted,) = (await client.privatePostAssetWithdrawal(GOOD))["data"]
    assert (accepted["clientId"], accepted["amt"]) == ("leg1", "1.5")


async def test_a_chain_that_is_left_out_is_the_main_one(okx: Any) -> None:
    client = okx.connect()
    await client.privatePostAssetWithdrawal({name: value for name, value in GOOD.items() if name != "chain"})
    (row,) = (await client.privateGetAssetWithdrawalHistory())["data"]
    assert row["chain"] == "ETH-ERC20"


async def test_rows_of_one_moment_are_lost_between_pages_by_time(okx: Any) -> None:
    client, at = okx.connect(), int(time.time() * 1000) - 60_000
    keys = await okx.control.add_rows("venue_a", "withdrawals", 5, newest_ms=at)
    first, after = await DRIVER.page(client, 3, None)
    assert [row["wdId"] for row in first] == keys[:3]
    assert await DRIVER.page(client, 3, after) == ([], None)


async def test_before_asks_for_what_is_newer_and_state_for_what_is_so(okx: Any) -> None:
    client, at = okx.connect(), int(time.time() * 1000) - 60_000
    keys = await okx.control.add_rows("venue_a", "withdrawals", 3, newest_ms=at, spacing_ms=1000)
    newer = (await client.privateGetAssetWithdrawalHistory({"before": str(at - 1000)}))["data"]
    assert [row["wdId"] for row in newer] == keys[:1]
    await okx.control.show_status("venue_a", "withdrawals", keys[1], "completed")
    done = (await client.privateGetAssetWithdrawalHistory({"state": "2"}))["data"]
    assert [row["wdId"] for row in done] == [keys[1]]
    (one,) = (await client.privateGetAssetWithdrawalHistory({"wdId": keys[2]}))["data"]
    assert one["state"] == "-2"


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("OK-ACCESS-KEY", "", "50103"),
        ("OK-ACCESS-PASSPHRASE", "", "50104"),
        ("OK-ACCESS-SIGN", "", "50106"),
        ("OK-ACCESS-TIMESTAMP", "", "50107"),
        ("OK-ACCESS-TIMESTAMP", "yesterday", "50112"),
        ("OK-ACCESS-TIMESTAMP", "2026-13-99T00:00:00.000Z", "50112"),
        ("OK-ACCESS-TIMESTAMP", "2020-01-01T00:00:00.000Z", "50102"),
    ],
)
async def test_a_header_is_refused_by_its_own_code(okx: Any, header: str, value: str, code: str) -> None:
    signed = ccxt.okx(dict(DRIVER.settings)).sign("asset/balances", ["private"], "GET", {"ccy": "ETH"})
    async with httpx.AsyncClient(base_url=f"{okx.running.address}/venue_a", trust_env=False) as http:
        path = signed["url"].partition(".com")[2]
        assert (await http.get(path, headers=signed["headers"])).json()["code"] == "0"
        refused = await http.get(path, headers={**signed["headers"], header: value})
        assert (refused.status_code, refused.json()["code"]) == (401, code)
        widened = await http.get(path.replace("=ETH", "=USDC"), headers=signed["headers"])
        assert widened.json()["code"] == "50113"


async def test_the_step_is_told_in_places(okx: Any) -> None:
    (row,) = (await okx.connect().privateGetAssetCurrencies({"ccy": "ETH"}))["data"]
    assert (row["wdTickSz"], row["chain"], row["mainNet"]) == ("5", "ETH-ERC20", True)


def test_a_key_without_a_passphrase_is_refused_at_start(dialect_config: Callable[..., ExchangeConfig]) -> None:
    from qtg_dagster.sandbox.exchange.exchange import Exchange

    with pytest.raises(ConfigurationError, match="api_passphrase"):
        Exchange(dialect_config(DRIVER, api_passphrase=None))
