"""What Bithumb's wire has that no other has: tokens with a time, nonces that are not remembered, receivers by name."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import ccxt.async_support as ccxt
import pytest

from tests.sandbox.exchange.dialects.drive_bithumb import DRIVER
from tests.sandbox.exchange.dialects.driver import TO, Order
from tests.sandbox.exchange.dialects.test_upbit_dialect import claims, plain, post, token

ASKED = {"currency": "ETH", "net_type": "ETH", "amount": "1.5", "address": TO}
PERSON = {"exchange_name": "Upbit", "receiver_type": "personal", "receiver_ko_name": "홍 길동"}
COMPANY = {**PERSON, "receiver_type": "corporation", "receiver_corp_ko_name": "큐", "receiver_corp_en_name": "Q & Co"}


def without(receiver: dict[str, str], name: str) -> dict[str, str]:
    return {known: value for known, value in receiver.items() if known != name}


@pytest.fixture
async def bithumb(open_venue: Any) -> Any:
    return await open_venue(DRIVER)


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize(
    ("timestamp", "name"),
    [(None, "expired_jwt"), ("now", "expired_jwt"), (0, "expired_jwt"), (-61_000, "expired_jwt"), (-30_000, None)],
)
async def test_a_token_is_good_around_its_time(bithumb: Any, timestamp: Any, name: str | None) -> None:
    told = now_ms() + timestamp if isinstance(timestamp, int) and timestamp else timestamp
    reply = await post(bithumb, token(claims(plain(ASKED), timestamp=told)), json.dumps(ASKED))
    assert reply.json().get("error", {}).get("name") == name
    assert len(await bithumb.executed()) == int(name is None)


async def test_a_copy_is_taken_as_another_request(bithumb: Any) -> None:
    bearer = token(claims(plain(ASKED), timestamp=now_ms()))
    ids = {(await post(bithumb, bearer, json.dumps(ASKED))).json()["uuid"] for _ in range(2)}
    assert len(ids) == len(await bithumb.executed()) == 2


@pytest.mark.parametrize("escape", [str, lambda value: quote(value, safe="~()*!.'")])
async def test_names_may_be_hashed_as_they_are_or_escaped(bithumb: Any, escape: Any) -> None:
    asked = ASKED | COMPANY
    hashed = plain({name: escape(value) for name, value in asked.items()})
    reply = await post(bithumb, token(claims(hashed, timestamp=now_ms())), json.dumps(asked))
    assert reply.status_code == 201, reply.text


async def test_another_name_than_the_hashed_is_refused(bithumb: Any) -> None:
    bearer = token(claims(plain(ASKED | PERSON), timestamp=now_ms()))
    reply = await post(bithumb, bearer, json.dumps(ASKED | PERSON | {"receiver_ko_name": "홍길동"}))
    assert reply.json()["error"]["name"] == "invalid_query_payload"


@pytest.mark.parametrize(
    ("receiver", "taken"),
    [
        ({}, False),
        (PERSON, True),
        (COMPANY, True),
        (without(PERSON, "receiver_ko_name"), False),
        (without(PERSON, "exchange_name"), False),
        ({**PERSON, "receiver_type": "somebody"}, False),
        (without(COMPANY, "receiver_corp_en_name"), False),
    ],
)
async def test_under_the_travel_rule_the_receiver_has_to_be_named(
    bithumb: Any, receiver: dict[str, str], taken: bool
) -> None:
    await bithumb.control.set_conditions("venue_a", travel_rule=True)
    ask = bithumb.connect().privatePostV1WithdrawsCoin(ASKED | receiver)
    if taken:
        assert DRIVER.submitted_id(await ask)
    else:
        with pytest.raises(ccxt.BaseError, match="eceiver"):
            await ask
    assert len(await bithumb.executed()) == int(taken)


async def test_one_row_is_asked_for_with_its_coin(bithumb: Any) -> None:
    client = bithumb.connect()
    key = DRIVER.submitted_id(await DRIVER.submit(client, Order()))
    row = await client.privateGetV1Withdraw({"uuid": key, "currency": "ETH"})
    assert (row["uuid"], row["transaction_type"]) == (key, None)
    assert "is_cancelable" not in row
    for asked, words in (({"uuid": key}, "currency is missing"), ({"uuid": key, "currency": "USDC"}, "no such row")):
        with pytest.raises(ccxt.BaseError, match=words):
            await client.privateGetV1Withdraw(asked)
