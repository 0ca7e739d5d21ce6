"""What Bybit's wire has that no other has: refusals with HTTP 200, a taken requestId, whole numbers, short windows."""

from __future__ import annotations

import time
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from tests.sandbox.exchange.dialects.drive_bybit import DRIVER
from tests.sandbox.exchange.dialects.driver import STRANGE, TO, Order

DAY_MS = 86_400_000


@pytest.fixture
async def bybit(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


def asked(**change: Any) -> dict[str, Any]:
    fields = {"coin": "ETH", "chain": "ETH", "address": TO, "amount": "1.5", "accountType": "FUND", "requestId": "leg1"}
    return {**fields, "timestamp": int(time.time() * 1000), "forceChain": 1, "feeType": 0, **change}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"timestamp": None}, 131002),
        ({"accountType": "SPOT"}, 131002),
        ({"requestId": "leg-1"}, 131002),
        ({"requestId": "x" * 33}, 131002),
        ({"chain": ""}, 131002),
        ({"amount": 1.5}, 131002),
        ({"address": STRANGE}, 131093),
        ({"address": TO.upper().replace("0X", "0x")}, 131093),
    ],
)
async def test_a_withdrawal_is_refused_by_what_is_wrong_with_it(bybit: Any, change: dict[str, Any], code: int) -> None:
    client = bybit.connect()
    with pytest.raises(ccxt.BaseError, match=f'"retCode": {code}'):
        await client.privatePostV5AssetWithdrawCreate(asked(**change))
    assert await bybit.executed() == []
    assert (await client.privatePostV5AssetWithdrawCreate(asked()))["result"]["id"]


async def test_a_taken_request_id_is_refused_with_its_own_code(bybit: Any) -> None:
    client = bybit.connect()
    await DRIVER.submit(client, Order())
    with pytest.raises(ccxt.BaseError, match='"retCode": 131082'):
        await DRIVER.submit(client, Order())
    assert len(await bybit.executed()) == 1
    assert "leg1" not in str(await DRIVER.withdrawals(client)), "the record does not show it"


async def test_a_fee_that_is_deducted_comes_out_of_the_amount(bybit: Any) -> None:
    await bybit.connect().privatePostV5AssetWithdrawCreate(asked(feeType=1))
    (row,) = await bybit.executed()
    assert (row["net"], row["fee"]) == ("1.499", "0.001")


@pytest.mark.parametrize("span", [30 * DAY_MS, 400 * DAY_MS, -1])
async def test_a_window_of_thirty_days_is_refused(bybit: Any, span: int) -> None:
    now = int(time.time() * 1000)
    for ask in ("privateGetV5AssetWithdrawQueryRecord", "privateGetV5AssetDepositQueryInternalRecord"):
        with pytest.raises(ccxt.BaseError, match='"retCode": 131002'):
            await getattr(bybit.connect(), ask)({"startTime": str(now - span), "endTime": str(now)})


async def test_what_stayed_off_the_chain_is_shown_only_when_asked_for(bybit: Any) -> None:
    client = bybit.connect()
    await DRIVER.submit(client, Order())
    for kind, rows in (("0", 1), ("1", 0), ("2", 1)):
        found = await client.privateGetV5AssetWithdrawQueryRecord({"withdrawType": kind})
        assert len(found["result"]["rows"]) == rows


async def test_a_refusal_comes_with_200_and_a_path_that_is_not_there_with_404(bybit: Any) -> None:
    async with httpx.AsyncClient(base_url=f"{bybit.running.address}/venue_a", trust_env=False) as http:
        unsigned = await http.get("/v5/user/query-api")
        assert (unsigned.status_code, unsigned.json()["retCode"]) == (200, 10001)
        assert (await http.get("/v5/nonsense")).status_code == 404


async def test_the_address_book_comes_in_pages(bybit: Any) -> None:
    ask = bybit.connect().privateGetV5AssetWithdrawQueryAddress
    first = (await ask({"limit": "1"}))["result"]
    second = (await ask({"limit": "1", "cursor": first["nextPageCursor"]}))["result"]
    assert [row["coin"] for row in (*first["rows"], *second["rows"])] == ["ETH", "USDC"]
    assert second["nextPageCursor"] == ""
    assert (await ask({"coin": "baseCoin"}))["result"]["rows"] == []
    with pytest.raises(ccxt.BaseError, match='"retCode": 131002'):
        await ask({"limit": "51"})


async def test_the_beneficiary_is_wanted_under_the_travel_rule(bybit: Any) -> None:
    client = bybit.connect()
    await bybit.control.set_conditions("venue_a", travel_rule=True)
    for told, code in (
        ({}, 131067),
        ({"questionnaire": "x"}, 131002),
        ({"questionnaire": {"legalType": "company"}}, 131002),
        ({"beneficiary": "x"}, 131002),
    ):
        with pytest.raises(ccxt.BaseError, match=f'"retCode": {code}'):
            await client.privatePostV5AssetWithdrawCreate(asked(**told))
    assert await bybit.executed() == []
    for number, told in enumerate(({"questionnaire": "{}"}, {"beneficiary": {"vaspEntityId": "others"}})):
        await client.privatePostV5AssetWithdrawCreate(asked(requestId=f"leg{number}", **told))
    assert len(await bybit.executed()) == 2
