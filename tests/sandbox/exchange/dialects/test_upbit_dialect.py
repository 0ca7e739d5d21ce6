"""What Upbit's wire has that no other has: JWTs over a hash of the query, nonces good once, pages by number."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.server import serving
from tests.sandbox.exchange.dialects.drive_upbit import DRIVER
from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Order

SECRET = DRIVER.settings["secret"]
ASKED = {"currency": "ETH", "net_type": "ETH", "amount": "1.5", "address": TO}


@pytest.fixture
async def upbit(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


def coded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def token(claims: dict[str, Any], alg: str = "HS512", digest: Any = hashlib.sha512, secret: str = SECRET) -> str:
    """A JWT, made by hand."""
    signed = f"{coded(json.dumps({'alg': alg, 'typ': 'JWT'}).encode())}.{coded(json.dumps(claims).encode())}"
    return f"{signed}.{coded(hmac.new(secret.encode(), signed.encode(), digest).digest())}"


def claims(query: str, **changed: Any) -> dict[str, Any]:
    hashed = {"query_hash": hashlib.sha512(query.encode()).hexdigest(), "query_hash_alg": "SHA512"}
    return {"access_key": API_KEY, "nonce": str(uuid4()), **hashed, **changed}


def plain(asked: dict[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in asked.items())


async def post(venue: Any, bearer: str | None, body: str) -> httpx.Response:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {bearer}"} if bearer else {})
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(f"{venue.running.address}/venue_a/v1/withdraws/coin", content=body, headers=headers)


@pytest.mark.parametrize(
    ("alg", "digest"), [("HS256", hashlib.sha256), ("HS384", hashlib.sha384), ("HS512", hashlib.sha512)]
)
async def test_each_of_three_digests_signs(upbit: Any, alg: str, digest: Any) -> None:
    reply = await post(upbit, token(claims(plain(ASKED)), alg, digest), json.dumps(ASKED))
    assert (reply.status_code, reply.json()["state"]) == (201, "WAITING")
    assert len(await upbit.executed()) == 1


@pytest.mark.parametrize(
    ("bearer", "name"),
    [
        (None, "no_authorization_token"),
        ("nonsense", "jwt_verification"),
        ("a.b.c", "jwt_verification"),
        (token(claims(plain(ASKED)), "none"), "jwt_verification"),
        (token(claims(plain(ASKED)), "HS256"), "jwt_verification"),
        (token(claims(plain(ASKED)), secret="another"), "jwt_verification"),
        (token(claims(plain(ASKED), access_key="another")), "invalid_access_key"),
        (token(claims(plain(ASKED), query_hash_alg="SHA256")), "invalid_query_payload"),
        (token(claims(plain({**ASKED, "amount": "1.6"}))), "invalid_query_payload"),
        (token(claims(plain(dict(reversed(ASKED.items()))))), "invalid_query_payload"),
        (token({"access_key": API_KEY, "nonce": "n"}), "invalid_query_payload"),
        (token(claims(plain(ASKED), nonce=7)), "jwt_verification"),
    ],
)
async def test_any_other_token_is_refused_and_moves_nothing(upbit: Any, bearer: str | None, name: str) -> None:
    reply = await post(upbit, bearer, json.dumps(ASKED))
    assert (reply.status_code, reply.json()["error"]["name"]) == (401, name)
    assert await upbit.executed() == []


async def test_a_nonce_is_used_up_by_what_is_rightly_signed_alone(upbit: Any) -> None:
    client, forger = upbit.connect(uuid=lambda: "n1"), upbit.connect(uuid=lambda: "n1", secret="another-secret")
    with pytest.raises(ccxt.BaseError, match="jwt_verification"):
        await DRIVER.free(forger, "ETH")
    assert await DRIVER.free(client, "ETH") == 100
    with pytest.raises(ccxt.BaseError, match="nonce_used"):
        await DRIVER.free(client, "ETH")


async def test_what_never_arrived_uses_no_nonce_up(upbit: Any) -> None:
    client = upbit.connect(uuid=lambda: "n1")
    await upbit.control.order(FaultKind.LOSE_REPLY_BEFORE_EXECUTION)
    with pytest.raises(ccxt.ExchangeNotAvailable):
        await DRIVER.submit(client, Order())
    assert await DRIVER.free(client, "ETH") == 100


async def test_a_nonce_stays_used_over_a_restart(dialect_config: Callable[..., ExchangeConfig]) -> None:
    config = dialect_config(DRIVER)
    bearer = token({"access_key": API_KEY, "nonce": "n1"})
    for status in (200, 401):
        async with serving(config) as running, httpx.AsyncClient(trust_env=False) as http:
            url = f"{running.address}/venue_a/v1/accounts"
            assert (await http.get(url, headers={"authorization": f"Bearer {bearer}"})).status_code == status


async def test_a_small_number_is_one_thing_in_the_body_and_another_in_the_hash(upbit: Any) -> None:
    client = upbit.connect()
    with pytest.raises(ccxt.BaseError, match="invalid_query_payload"):
        await client.privatePostWithdrawsCoin({**ASKED, "amount": 1e-7})
    with pytest.raises(ccxt.BaseError, match="amount does not have a valid value"):
        await client.privatePostWithdrawsCoin({**ASKED, "amount": "1e-7"})
    with pytest.raises(ccxt.BaseError, match="withdraw_decimal_place"):
        await client.privatePostWithdrawsCoin({**ASKED, "amount": "0.0000001"})
    assert await upbit.executed() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address": "0x" + "ce" * 20}, "withdraw_address_not_registered"),
        ({"currency": "USDC", "address": "0x" + "ce" * 20}, "withdraw_address_not_registered"),
        ({"secondary_address": "7"}, "withdraw_address_not_registered"),
        ({"transaction_type": "internal"}, "transaction_type"),
        ({"net_type": ""}, "net_type is missing"),
    ],
)
async def test_a_withdrawal_goes_to_an_address_that_is_saved_and_proven(
    upbit: Any, change: dict[str, str], words: str
) -> None:
    client = upbit.connect()
    with pytest.raises(ccxt.BaseError, match=words):
        await client.privatePostWithdrawsCoin(ASKED | change)
    assert await upbit.executed() == []
    assert DRIVER.submitted_id(await client.privatePostWithdrawsCoin({**ASKED, "transaction_type": "default"}))


async def test_no_row_says_where_it_went_and_times_carry_their_zone(upbit: Any) -> None:
    client = upbit.connect()
    answered = await DRIVER.submit(client, Order())
    (row,) = await DRIVER.withdrawals(client)
    assert answered == row
    assert TO not in json.dumps(row)
    assert row["created_at"].endswith("+09:00")
    assert row["is_cancelable"] is True


async def test_one_row_is_asked_for_by_id_or_transaction(upbit: Any) -> None:
    client = upbit.connect()
    keys = await upbit.control.add_rows("venue_a", "withdrawals", 3)
    assert (await client.privateGetWithdraw({"uuid": keys[1]}))["uuid"] == keys[1]
    assert (await client.privateGetWithdraw())["uuid"] == keys[0]  # the newest
    listed = await client.privateGetWithdraws({"uuids[]": keys[2]})
    assert [row["uuid"] for row in listed] == [keys[2]]
    for asked in ({"uuid": "nobody"}, {"txid": "0x" + "ab" * 32}, {"uuid": keys[0], "currency": "USDC"}):
        with pytest.raises(ccxt.BaseError, match="withdraw_not_found"):
            await client.privateGetWithdraw(asked)
    (deposit,) = await upbit.control.add_rows("venue_a", "deposits", 1)
    assert (await client.privateGetDeposit({"uuid": deposit}))["uuid"] == deposit


async def test_a_record_is_read_from_either_end_and_by_state(upbit: Any) -> None:
    client = upbit.connect()
    keys = await upbit.control.add_rows("venue_a", "withdrawals", 5, spacing_ms=1000)
    oldest = await client.privateGetWithdraws({"order_by": "asc", "limit": "2", "page": "2"})
    assert [row["uuid"] for row in oldest] == keys[::-1][2:4]
    await upbit.control.show_status("venue_a", "withdrawals", keys[3], "completed")
    assert [row["uuid"] for row in await client.privateGetWithdraws({"state": "DONE"})] == [keys[3]]
    for wrong in ({"order_by": "up"}, {"page": "0"}, {"limit": "101"}, {"limit": "0"}, {"limit": "many"}):
        with pytest.raises(ccxt.BaseError, match="does not have a valid value"):
            await client.privateGetWithdraws(wrong)


@pytest.mark.parametrize(
    ("closed", "state"),
    [
        ({}, "working"),
        ({"withdraw_disabled": ["ETH/ETH"]}, "deposit_only"),
        ({"deposit_disabled": ["ETH/ETH"]}, "withdraw_only"),
        ({"withdraw_disabled": ["ETH/ETH"], "deposit_disabled": ["ETH/ETH"]}, "paused"),
    ],
)
async def test_a_wallet_says_how_far_it_is_open(upbit: Any, closed: dict[str, Any], state: str) -> None:
    await upbit.control.set_conditions("venue_a", **closed)
    wallets = await upbit.connect().privateGetStatusWallet()
    assert {row["currency"]: row["wallet_state"] for row in wallets} == {"ETH": state, "USDC": "working"}


async def test_a_body_that_is_no_json_is_refused(upbit: Any) -> None:
    for body in ("amount=1.5", "[]"):
        reply = await post(upbit, token(claims(body)), body)
        assert reply.json()["error"]["name"] == "invalid_parameter"
