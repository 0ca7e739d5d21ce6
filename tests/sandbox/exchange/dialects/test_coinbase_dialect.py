"""What Coinbase's wire has that no other has: tokens for one method and place, UUIDs, one record for both ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.dialects.coinbase import CoinbaseDialect
from tests.sandbox.exchange.dialects.drive_coinbase import ANOTHER, DRIVER, SECRET
from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Order

IDEM = DRIVER.own_id("leg1")


@pytest.fixture
async def coinbase(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


@pytest.fixture
def ask(coinbase: Any) -> Callable[..., Any]:
    """The status and error of a read with a token of our making: what ccxt puts into one, changed."""

    async def send(header: dict[str, Any] | None = None, secret: str = SECRET, **claims: Any) -> tuple[int, str]:
        address = f"{coinbase.running.address}/venue_a/v2/accounts"
        now = int(time.time())
        told = {
            "aud": ["retail_rest_api_proxy"],
            "iss": "coinbase-cloud",
            "nbf": now,
            "exp": now + 120,
            "sub": API_KEY,
            "iat": now,
            "uri": f"GET {address}",
            **claims,
        }
        options = {"kid": API_KEY, "nonce": "5eed", "alg": "ES256", **(header or {})}
        token = ccxt.Exchange.jwt(told, secret.encode(), "sha256", False, options)
        async with httpx.AsyncClient(trust_env=False) as http:
            reply = await http.get(address, headers={"Authorization": f"Bearer {token}"})
        return reply.status_code, (reply.json().get("errors") or [{"id": ""}])[0]["id"]

    return send


async def test_what_ccxt_signs_is_admitted_and_every_part_of_it_counts(ask: Any, coinbase: Any) -> None:
    assert await ask() == (200, "")
    now, elsewhere = int(time.time()), coinbase.running.address
    wrong: list[dict[str, Any]] = [
        {"header": {"kid": "another-key"}},
        {"header": {"nonce": ""}},
        {"sub": "another-key"},
        {"iss": "somebody"},
        {"aud": ["another_service"]},
        {"uri": f"POST {elsewhere}/venue_a/v2/accounts"},
        {"uri": f"GET {elsewhere}/venue_a/v2/accounts/ETH"},
        {"uri": f"GET {elsewhere}/venue_b/v2/accounts"},
        {"uri": "GET https://api.coinbase.com/v2/accounts"},
        {"uri": None},
        {"nbf": now - 300, "exp": now - 180},
        {"nbf": now + 100, "exp": now + 200},
        {"exp": now + 3600},
        {"exp": now - 1},
        {"exp": str(now + 60)},
        {"nbf": None},
        {"secret": ANOTHER},
    ]
    for change in wrong:
        assert await ask(**change) == (401, "authentication_error"), change


async def test_a_token_of_another_kind_is_refused(coinbase: Any, ask: Any) -> None:
    assert await ask(header={"alg": "HS256"}) == (401, "authentication_error")
    async with httpx.AsyncClient(base_url=f"{coinbase.running.address}/venue_a", trust_env=False) as http:
        for header in ("", "Basic abc", "Bearer abc", "Bearer a.b", "Bearer a.b.c", "Bearer W10.W10.W10"):
            reply = await http.get("/v2/accounts", headers={"Authorization": header} if header else {})
            assert (reply.status_code, reply.json()["errors"][0]["id"]) == (401, "authentication_error"), header


def asked(**change: Any) -> dict[str, Any]:
    fields = {"account_id": "ETH", "type": "send", "to": TO, "amount": "1.5", "currency": "ETH"}
    return {**fields, "network": "ethereum", "idem": IDEM, **change}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "transfer"},
        {"currency": "USDC"},
        {"idem": IDEM.upper()},
        {"idem": "leg1"},
        {"idem": "a1794ecf-5693-15fa-80cf-ef731748ed82"},
        {"amount": 1.5},
        {"network": "Ethereum"},
        {"destination_tag": "007"},
    ],
)
async def test_a_send_is_refused_by_what_is_wrong_with_it(coinbase: Any, change: dict[str, Any]) -> None:
    client = coinbase.connect()
    with pytest.raises(ccxt.BaseError, match="validation_error"):
        await client.v2PrivatePostAccountsAccountIdTransactions(asked(**change))
    assert await coinbase.executed() == []
    assert (await client.v2PrivatePostAccountsAccountIdTransactions(asked()))["data"]["id"]


async def test_an_id_that_was_used_is_answered_with_the_first_and_holds_nothing_more(coinbase: Any) -> None:
    client = coinbase.connect()
    first = (await client.v2PrivatePostAccountsAccountIdTransactions(asked(amount="60")))["data"]
    free = await DRIVER.free(client, "ETH")
    again = (await client.v2PrivatePostAccountsAccountIdTransactions(asked(amount="60")))["data"]
    assert (again["id"], again["idem"], len(await coinbase.executed())) == (first["id"], IDEM, 1)
    assert await DRIVER.free(client, "ETH") == free
    assert first["amount"] == {"amount": "-60.001", "currency": "ETH"}
    assert "hash" not in first["network"]


async def test_both_ways_stand_on_one_record_and_are_told_by_their_sign(coinbase: Any) -> None:
    client = coinbase.connect()
    await DRIVER.submit(client, Order())
    await coinbase.control.add_rows("venue_a", "deposits", 2)
    rows = (await client.v2PrivateGetAccountsAccountIdTransactions({"account_id": "ETH"}))["data"]
    assert sorted(row["amount"]["amount"].startswith("-") for row in rows) == [False, False, True]
    assert {row["type"] for row in rows} == {"send"}
    others = await client.v2PrivateGetAccountsAccountIdTransactions({"account_id": "USDC"})
    assert (others["data"], others["pagination"]["next_uri"]) == ([], None)


def test_fresh_keys_are_named_as_the_venue_names_them_and_differ() -> None:
    one, other = CoinbaseDialect.new_credentials(), CoinbaseDialect.new_credentials()
    assert one.api_key.startswith("organizations/")
    assert "/apiKeys/" in one.api_key
    assert one.api_secret.startswith("-----BEGIN EC PRIVATE KEY-----")
    assert one.api_secret != other.api_secret


async def test_a_secret_that_is_no_key_of_the_curve_is_refused_at_the_start(open_venue: Any) -> None:
    with pytest.raises(ConfigurationError, match="api_secret"):
        await open_venue(DRIVER, api_secret="not-a-key-of-any-kind")
