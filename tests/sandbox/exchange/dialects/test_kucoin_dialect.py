"""What KuCoin's wire has that no other has: how the fee is taken, remarks, pages that are counted, returned funds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from tests.sandbox.exchange.dialects.drive_kucoin import DRIVER
from tests.sandbox.exchange.dialects.driver import Order

GOOD = {
    "currency": "ETH",
    "chain": "eth",
    "toAddress": Order().address,
    "amount": "1.5",
    "withdrawType": "ADDRESS",
    "feeDeductType": "EXTERNAL",
    "remark": "leg1",
}


@pytest.fixture
async def kucoin(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"chain": "ETH"}, "900014"),
        ({"chain": "ERC20"}, "900014"),
        ({"withdrawType": "UID"}, "400100"),
        ({"withdrawType": ""}, "400100"),
        ({"feeDeductType": "BOTH"}, "400100"),
        ({"memo": "7"}, "400100"),
        ({"amount": 1.5}, "400100"),
        ({"toAddress": ""}, "400100"),
    ],
)
async def test_a_withdrawal_is_refused_by_what_is_wrong_with_it(kucoin: Any, change: dict[str, Any], code: str) -> None:
    client = kucoin.connect()
    with pytest.raises(ccxt.BaseError, match=f'"code": "{code}"'):
        await client.privatePostWithdrawals(GOOD | change)
    assert await kucoin.executed() == []
    accepted = (await client.privatePostWithdrawals(GOOD))["data"]
    (made,) = await kucoin.executed()
    assert (made["id"], made["net"], made["order_id"]) == (accepted["withdrawalId"], "1.5", "leg1")


@pytest.mark.parametrize(
    ("asked", "amount", "arrives"),
    [
        ("EXTERNAL", "1.5", "1.5"),
        ("INTERNAL", "1.5", "1.499"),
        (None, "1.5", "1.5"),
        (None, "99.999", "99.999"),
        (None, "99.9999", "99.9989"),  # the fee is not there: it is taken from what was asked for
        (None, "100", "99.999"),
    ],
)
async def test_the_fee_is_taken_as_asked_and_else_as_the_balance_allows(
    kucoin: Any, asked: str | None, amount: str, arrives: str
) -> None:
    fields = {name: value for name, value in GOOD.items() if name != "feeDeductType"} | {"amount": amount}
    await kucoin.connect().privatePostWithdrawals(fields | ({} if asked is None else {"feeDeductType": asked}))
    (made,) = await kucoin.executed()
    assert (made["net"], made["fee"]) == (arrives, "0.001")


async def test_a_chain_that_is_left_out_is_the_usual_one(kucoin: Any) -> None:
    client = kucoin.connect()
    await client.privatePostWithdrawals({name: value for name, value in GOOD.items() if name != "chain"})
    (row,) = await DRIVER.withdrawals(client)
    assert (row["chain"], row["remark"]) == ("eth", "leg1")


async def test_pages_say_how_many_there_are_and_ten_rows_are_the_fewest(kucoin: Any) -> None:
    client = kucoin.connect()
    await kucoin.control.add_rows("venue_a", "withdrawals", 11, coin="ETH")
    page = (await client.privateGetWithdrawals({"currency": "ETH", "pageSize": "10", "currentPage": "2"}))["data"]
    assert (page["currentPage"], page["pageSize"], page["totalNum"], page["totalPage"]) == (2, 10, 11, 2)
    assert len(page["items"]) == 1
    for asked in ({"currency": "ETH", "pageSize": "9"}, {"currency": ""}, {"currency": "ETH", "startAt": "now"}):
        with pytest.raises(ccxt.BaseError, match='"code": "400100"'):
            await client.privateGetWithdrawals(asked)


async def test_whether_funds_came_back_is_told_by_id_alone(kucoin: Any) -> None:
    client = kucoin.connect()
    key = DRIVER.submitted_id(await DRIVER.submit(client, Order()))
    await kucoin.control.reject("venue_a", key, status=5)
    (row,) = await DRIVER.withdrawals(client)
    assert (row["status"], "returnStatus" in row) == ("FAILURE", False)
    (failed,) = (await client.privateGetWithdrawals({"currency": "ETH", "status": "FAILURE"}))["data"]["items"]
    assert failed == row
    told = (await client.request(f"withdrawals/{key}", ["private"], "GET"))["data"]
    assert (told["returnStatus"], told["returnAmount"], told["chainId"]) == ("SUCCESS", "1.501", "eth")
    with pytest.raises(ccxt.BaseError, match="does not exist"):
        await client.request("withdrawals/nobody", ["private"], "GET")


async def test_accounts_are_asked_for_by_kind(kucoin: Any) -> None:
    client = kucoin.connect()
    assert (await client.privateGetAccounts({"type": "trade"}))["data"] == []
    rows = (await client.privateGetAccounts())["data"]
    assert {(row["currency"], row["type"]) for row in rows} == {("ETH", "main"), ("USDC", "main")}
    with pytest.raises(ccxt.BaseError, match='"code": "400100"'):
        await client.privateGetAccounts({"type": "futures"})


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("KC-API-KEY", "", "400001"),
        ("KC-API-PASSPHRASE", "", "400001"),
        ("KC-API-SIGN", "", "400001"),
        ("KC-API-TIMESTAMP", "", "400001"),
        ("KC-API-KEY-VERSION", "", "400008"),
        ("KC-API-KEY-VERSION", "1", "400008"),
        ("KC-API-KEY-VERSION", "9", "400009"),
        ("KC-API-TIMESTAMP", "yesterday", "400002"),
        ("KC-API-TIMESTAMP", "1546837113087", "400002"),
        ("KC-API-PASSPHRASE", "passphrase-of-the-desk", "400004"),  # as it is, and not encrypted
        ("KC-API-SIGN", "c2ln", "400005"),
    ],
)
async def test_a_header_is_refused_by_its_own_code(kucoin: Any, header: str, value: str, code: str) -> None:
    signed = ccxt.kucoin(dict(DRIVER.settings)).sign("accounts", ["private"], "GET", {"currency": "ETH"})
    async with httpx.AsyncClient(base_url=f"{kucoin.running.address}/venue_a", trust_env=False) as http:
        path = signed["url"].partition(".com")[2]
        for version in ("2", "3"):
            told = await http.get(path, headers={**signed["headers"], "KC-API-KEY-VERSION": version})
            assert told.json()["code"] == "200000"
        refused = await http.get(path, headers={**signed["headers"], header: value})
        assert (refused.status_code, refused.json()["code"]) == (401, code)
        widened = await http.get(path.replace("=ETH", "=USDC"), headers=signed["headers"])
        assert widened.json()["code"] == "400005"


def test_a_key_without_a_passphrase_is_refused_at_start(dialect_config: Callable[..., ExchangeConfig]) -> None:
    from qtg_dagster.sandbox.exchange.exchange import Exchange

    with pytest.raises(ConfigurationError, match="api_passphrase"):
        Exchange(dialect_config(DRIVER, api_passphrase=None))
