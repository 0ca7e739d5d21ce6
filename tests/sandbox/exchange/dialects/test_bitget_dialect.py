"""What Bitget's wire has that no other has: both times of a look, pages below an id, headers, a unique clientOid."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from tests.sandbox.exchange.dialects.drive_bitget import DRIVER
from tests.sandbox.exchange.dialects.driver import Order

GOOD = {
    "coin": "ETH",
    "transferType": "on_chain",
    "chain": "ETH",
    "address": Order().address,
    "size": "1.5",
    "clientOid": "leg1",
}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"transferType": "internal_transfer"}, "40020"),
    ({"transferType": ""}, "40019"),
    ({"chain": ""}, "40019"),
    ({"chain": "ERC20"}, "43111"),
    ({"address": ""}, "40019"),
    ({"tag": "7"}, "43111"),
    ({"clientOid": "x" * 51}, "40304"),
    ({"size": 1.5}, "40020"),
    ({"memberCode": "nowhere"}, "40020"),
    ({"identityType": "robot"}, "40020"),
]
DAY = 86_400_000


@pytest.fixture
async def bitget(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


async def test_a_withdrawal_is_refused_by_what_is_wrong_with_it(bitget: Any) -> None:
    client = bitget.connect()
    for change, code in REFUSED:
        with pytest.raises(ccxt.BaseError, match=f'"code": "{code}"'):
            await client.privateSpotPostV2SpotWalletWithdrawal(GOOD | change)
    assert await bitget.executed() == []
    korean = {"memberCode": "korbit", "identityType": "user", "firstName": "A", "lastName": "B"}
    accepted = (await client.privateSpotPostV2SpotWalletWithdrawal(GOOD | korean | {"chain": "eth"}))["data"]
    (made,) = await bitget.executed()
    assert (accepted["clientOid"], accepted["orderId"]) == ("leg1", made["id"])
    assert made["network"] == "ERC20"


async def test_an_id_is_unique_and_its_first_withdrawal_stays(bitget: Any) -> None:
    client = bitget.connect()
    await client.privateSpotPostV2SpotWalletWithdrawal(GOOD)
    with pytest.raises(ccxt.BaseError, match='"code": "43118"'):
        await client.privateSpotPostV2SpotWalletWithdrawal(GOOD | {"size": "2"})
    (row,) = await DRIVER.find(client, "leg1")
    assert (row["size"], row["fee"], row["tradeId"], row["dest"]) == ("1.500", "-0.001", None, "on_chain")


async def test_a_history_needs_both_its_times_and_no_more_than_ninety_days(bitget: Any) -> None:
    client, now = bitget.connect(), int(time.time() * 1000)
    cases: list[tuple[dict[str, int | str], str]] = [
        ({"endTime": now}, "40019"),
        ({"startTime": now - DAY}, "40019"),
        ({"startTime": "yesterday", "endTime": now}, "40020"),
        ({"startTime": now, "endTime": now - 1}, "40707"),
        ({"startTime": now - 90 * DAY - 1, "endTime": now}, "00001"),
        ({"startTime": now - DAY, "endTime": now, "limit": "101"}, "40058"),
        ({"startTime": now - DAY, "endTime": now, "idLessThan": "7"}, "40020"),
    ]
    for ask in (client.privateSpotGetV2SpotWalletWithdrawalRecords, client.privateSpotGetV2SpotWalletDepositRecords):
        for asked, code in cases:
            with pytest.raises(ccxt.BaseError, match=f'"code": "{code}"'):
                await ask(asked)
        assert (await ask({"startTime": now - 90 * DAY, "endTime": now}))["data"] == []


async def test_rows_come_twenty_at_a_time_and_their_ids_rise_with_time(bitget: Any) -> None:
    client, at = bitget.connect(), int(time.time() * 1000) - 60_000
    for history, ask in (
        ("withdrawals", client.privateSpotGetV2SpotWalletWithdrawalRecords),
        ("deposits", client.privateSpotGetV2SpotWalletDepositRecords),
    ):
        keys = await bitget.control.add_rows("venue_a", history, 25, newest_ms=at)
        times = {"startTime": str(at - DAY), "endTime": str(at)}
        first = [row["orderId"] for row in (await ask(times))["data"]]
        rest = [row["orderId"] for row in (await ask(times | {"idLessThan": first[-1]}))["data"]]
        assert first + rest == keys == sorted(keys, key=int, reverse=True)
        (one,) = (await ask(times | {"orderId": keys[3]}))["data"]
        assert one["orderId"] == keys[3]


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("ACCESS-KEY", "", "40001"),
        ("ACCESS-SIGN", "", "40003"),
        ("ACCESS-TIMESTAMP", "", "40005"),
        ("ACCESS-TIMESTAMP", "yesterday", "40005"),
        ("ACCESS-TIMESTAMP", "1577836800000", "40008"),
        ("ACCESS-PASSPHRASE", "", "40011"),
    ],
)
async def test_a_header_is_refused_by_its_own_code(bitget: Any, header: str, value: str, code: str) -> None:
    signer = ccxt.bitget(dict(DRIVER.settings))
    signed = signer.sign("v2/spot/account/assets", ["private", "spot"], "GET", {"coin": "ETH"})
    headers = {name: text for name, text in signed["headers"].items() if text is not None}
    async with httpx.AsyncClient(base_url=f"{bitget.running.address}/venue_a", trust_env=False) as http:
        path = signed["url"].partition(".com")[2]
        assert (await http.get(path, headers=headers)).json()["code"] == "00000"
        refused = await http.get(path, headers={**headers, header: value})
        assert (refused.status_code, refused.json()["code"], refused.json()["data"]) == (400, code, None)
        widened = await http.get(path.replace("=ETH", "=USDC"), headers=headers)
        assert widened.json()["code"] == "40009"


async def test_a_body_is_json_and_says_so(bitget: Any) -> None:
    signer = ccxt.bitget(dict(DRIVER.settings))
    path = ("v2/spot/wallet/withdrawal", ["private", "spot"], "POST")
    async with httpx.AsyncClient(base_url=f"{bitget.running.address}/venue_a", trust_env=False) as http:
        for kind, body, code in (("text/plain", GOOD, "40007"), ("application/json", [1], "40409")):
            signed = signer.sign(*path, body)
            headers = {**signed["headers"], "Content-Type": kind}
            refused = await http.post(signed["url"].partition(".com")[2], content=signed["body"], headers=headers)
            assert refused.json()["code"] == code
    assert await bitget.executed() == []


async def test_the_step_is_told_in_places_and_truth_in_text(bitget: Any) -> None:
    (coin,) = (await bitget.connect().publicSpotGetV2SpotPublicCoins({"coin": "ETH"}))["data"]
    (chain,) = coin["chains"]
    (token,) = (await bitget.connect().publicSpotGetV2SpotPublicCoins({"coin": "USDC"}))["data"]
    assert (chain["chain"], token["chains"][0]["chain"]) == ("ETH", "ERC20")
    assert (chain["withdrawMinScale"], chain["withdrawStep"], chain["withdrawable"]) == ("5", "0", "true")


async def test_other_wallets_are_there_and_empty(bitget: Any) -> None:
    client = bitget.connect()
    for answer in (
        await client.privateSpotGetV2AccountFundingAssets(),
        await client.privateMarginGetV2MarginCrossedAccountAssets(),
        await client.privateMarginGetV2MarginIsolatedAccountAssets(),
        await client.privateMixGetV2MixAccountAccounts({"productType": "USDT-FUTURES"}),
    ):
        assert answer["data"] == []


def test_a_key_without_a_passphrase_is_refused_at_start(dialect_config: Callable[..., ExchangeConfig]) -> None:
    from qtg_dagster.sandbox.exchange.exchange import Exchange

    with pytest.raises(ConfigurationError, match="api_passphrase"):
        Exchange(dialect_config(DRIVER, api_passphrase=None))
