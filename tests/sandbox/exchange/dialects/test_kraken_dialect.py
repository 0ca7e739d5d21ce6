"""What Kraken's wire has that no other has: nonces, names of saved addresses, cursors, fees with a ceiling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.server import serving
from tests.sandbox.exchange.dialects.drive_kraken import DRIVER
from tests.sandbox.exchange.dialects.driver import Order


@pytest.fixture
async def kraken(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


async def test_a_nonce_is_used_up_by_what_is_rightly_signed_alone(kraken: Any) -> None:
    forger = kraken.connect(secret=DRIVER.spoilt["secret"][0]["secret"])
    forger.incrementing_nonce = lambda: 10**18
    with pytest.raises(ccxt.BaseError, match="Invalid signature"):
        await DRIVER.free(forger, "ETH")
    assert await DRIVER.free(kraken.connect(), "ETH") == 100


async def test_what_never_arrived_uses_no_nonce_up(kraken: Any) -> None:
    client = kraken.connect()
    client.incrementing_nonce = lambda: 5
    await kraken.control.order(FaultKind.LOSE_REPLY_BEFORE_EXECUTION, endpoint="balances")
    with pytest.raises(ccxt.ExchangeNotAvailable):
        await DRIVER.free(client, "ETH")
    assert await DRIVER.free(client, "ETH") == 100
    with pytest.raises(ccxt.InvalidNonce):
        await DRIVER.free(client, "ETH")


async def test_a_nonce_stays_used_over_a_restart(dialect_config: Callable[..., ExchangeConfig]) -> None:
    config = dialect_config(DRIVER)
    kept: dict[str, Any] = {}
    for again in (False, True):
        async with serving(config) as running, httpx.AsyncClient(trust_env=False) as http:
            if not again:
                client = ccxt.kraken(dict(DRIVER.settings))
                kept = client.sign("Balance", ["private"], "POST", {})
            url = f"{running.address}/venue_a/0/private/Balance"
            reply = await http.post(url, content=kept["body"], headers=kept["headers"])
            assert reply.status_code == 200
            assert reply.json()["error"] == (["EAPI:Invalid nonce"] if again else [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": "nobody"}, "EFunding:Unknown withdraw key"),
        ({"key": "desk USDC"}, "EFunding:Unknown withdraw key"),
        ({"key": "unproven ETH"}, "EFunding:Unknown withdraw key"),
        ({"address": "0x" + "ef" * 20}, "EFunding:Invalid address"),
        ({"max_fee": "0.0009"}, "EFunding:Max fee exceeded"),
        ({"max_fee": "much"}, "EGeneral:Invalid arguments:max_fee"),
        ({"key": ""}, "EGeneral:Invalid arguments:key"),
    ],
)
async def test_a_withdrawal_goes_to_a_saved_and_proven_name(kraken: Any, change: dict[str, str], words: str) -> None:
    client = kraken.connect()
    asked = {"asset": "XETH", "key": "desk ETH", "amount": "1.5", "address": Order().address, "max_fee": "0.001"}
    with pytest.raises(ccxt.BaseError, match=words):
        await client.privatePostWithdraw(asked | change)
    assert await kraken.executed() == []
    assert DRIVER.submitted_id(await client.privatePostWithdraw(asked))


async def test_what_a_withdrawal_would_cost_is_told_and_holds_nothing(kraken: Any) -> None:
    client = kraken.connect()
    asked = {"asset": "ETH", "key": "desk ETH", "amount": "1.5"}
    result = (await client.privatePostWithdrawInfo(asked))["result"]
    assert (result["amount"], result["fee"], result["limit"]) == ("1.499", "0.001", "100")
    assert await kraken.executed() == []


@pytest.mark.parametrize(
    ("history", "method", "name"),
    [
        ("withdrawals", "privatePostWithdrawStatus", "withdrawals"),
        ("deposits", "privatePostDepositStatus", "deposit"),
    ],
)
async def test_without_a_cursor_a_history_is_a_short_list(kraken: Any, history: str, method: str, name: str) -> None:
    ask = getattr(kraken.connect(), method)
    keys = await kraken.control.add_rows("venue_a", history, 30)
    for asked in ({}, {"cursor": "false"}):
        assert [row["refid"] for row in (await ask(asked))["result"]] == keys[:25]
    paged = (await ask({"cursor": "true"}))["result"]
    assert [row["refid"] for row in paged[name]] == keys[:25]
    rest = (await ask({"cursor": paged["next_cursor"], "limit": "40"}))["result"]
    assert ([row["refid"] for row in rest[name]], rest["next_cursor"]) == (keys[25:], None)
    with pytest.raises(ccxt.BaseError, match="cursor"):
        await ask({"cursor": "nonsense"})


async def test_rows_are_asked_for_by_either_name_of_an_asset_and_by_method(kraken: Any) -> None:
    client = kraken.connect()
    await kraken.control.add_rows("venue_a", "withdrawals", 1, coin="USDC")
    await kraken.control.add_rows("venue_a", "withdrawals", 2, coin="ETH")
    counts = [
        len((await client.privatePostWithdrawStatus(asked))["result"])
        for asked in ({"asset": "ETH"}, {"asset": "XETH"}, {"asset": "USDC"}, {"method": "ETH (Ethereum)"})
    ]
    assert counts == [2, 2, 1, 2]
    assert (await client.privatePostWithdrawStatus({"method": "ETH (Moon)"}))["result"] == []


async def test_requests_side_by_side_lose_their_nonces_in_order_or_not_at_all(kraken: Any) -> None:
    clients = [kraken.connect() for _ in range(4)]
    answers = await asyncio.gather(*(DRIVER.submit(client, Order()) for client in clients), return_exceptions=True)
    accepted = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, ccxt.InvalidNonce)]
    assert len(accepted) + len(refused) == 4
    assert len(await kraken.executed()) == len(accepted) >= 1


def test_a_secret_that_is_not_base64_is_refused_at_start(dialect_config: Callable[..., ExchangeConfig]) -> None:
    from qtg_dagster.sandbox.exchange.exchange import Exchange

    with pytest.raises(ConfigurationError, match="api_secret"):
        Exchange(dialect_config(DRIVER, api_secret="no base64!"))
