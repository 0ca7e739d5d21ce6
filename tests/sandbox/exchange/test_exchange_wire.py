"""Key, signature, clock and parameters are judged as Binance does, with the real ccxt client in front."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import ccxt.async_support as ccxt
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.dialects.binance.signing import authenticate
from qtg_dagster.sandbox.exchange.server import Serving
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest

KEY, SECRET, NOW = "some-api-key", "some-secret", 1_700_000_000_000


def signed(text: str, secret: str = SECRET) -> str:
    return text + "&signature=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def asked(query: str = "", body: str = "", key: str | None = KEY) -> VenueRequest:
    headers = {} if key is None else {"x-mbx-apikey": key}
    return VenueRequest("POST", "/sapi/v1/capital/withdraw/apply", query, body, headers)


def code_of(request: VenueRequest) -> int:
    with pytest.raises(Refusal) as caught:
        authenticate(request, api_key=KEY, api_secret=SECRET, now_ms=NOW)
    return caught.value.code


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20), max_size=5))
def test_any_parameters_signed_as_sent_are_admitted_and_read_back(values: dict[str, str]) -> None:
    text = urlencode({**values, "timestamp": NOW})
    found = authenticate(asked(body=signed(text)), api_key=KEY, api_secret=SECRET, now_ms=NOW)
    assert {name: found.text(name) for name in values} == {name: value or None for name, value in values.items()}


@given(st.integers(min_value=0, max_value=200), st.integers(min_value=1, max_value=127))
def test_a_changed_byte_is_refused(position: int, flip: int) -> None:
    text = signed(f"coin=USDC&amount=12.5&address=0x{'ab' * 20}&timestamp={NOW}")
    at = position % len(text)
    changed = text[:at] + chr(ord(text[at]) ^ flip or 1) + text[at + 1 :]
    same_signature = changed.rpartition("=")[2].lower() == text.rpartition("=")[2]
    same_text = changed.rpartition("&")[0] == text.rpartition("&")[0]
    if same_signature and same_text and changed.rpartition("&")[2].startswith("signature="):
        return  # the other case of a hex digit is the same signature
    assert code_of(asked(body=changed)) in (-1022, -1102, -1100, -1101, -1021)


def test_the_signature_covers_query_and_body_together() -> None:
    query, body = "coin=ETH", f"timestamp={NOW}"
    signature = hmac.new(SECRET.encode(), (query + body).encode(), hashlib.sha256).hexdigest()
    request = asked(query, f"{body}&signature={signature}")
    assert authenticate(request, api_key=KEY, api_secret=SECRET, now_ms=NOW).text("coin") == "ETH"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"timestamp={NOW - 5_001}", -1021),
        (f"timestamp={NOW + 1_000}", -1021),
        (f"recvWindow=1000&timestamp={NOW - 1_001}", -1021),
        (f"recvWindow=60001&timestamp={NOW}", -1131),
        ("coin=ETH", -1102),
        ("timestamp=soon", -1100),
        (f"coin=ETH&coin=BTC&timestamp={NOW}", -1101),
    ],
)
def test_clock_and_parameters_are_refused_with_their_codes(text: str, code: int) -> None:
    assert code_of(asked(body=signed(text))) == code


@pytest.mark.parametrize("text", [f"timestamp={NOW - 5_000}", f"recvWindow=60000&timestamp={NOW - 60_000}"])
def test_the_edge_of_the_window_is_inside(text: str) -> None:
    assert authenticate(asked(body=signed(text)), api_key=KEY, api_secret=SECRET, now_ms=NOW)


def test_a_missing_and_an_unknown_key_differ() -> None:
    text = signed(f"timestamp={NOW}")
    assert code_of(asked(body=text, key=None)) == -2014
    assert code_of(asked(body=text, key="another-key")) == -2015


async def test_ccxt_is_admitted_everywhere_it_signs(paper_exchange: Serving, connect: Callable[..., Any]) -> None:
    client = connect(paper_exchange.address)
    (eth, usdc) = await client.sapiGetCapitalConfigGetall()
    assert (eth["coin"], usdc["networkList"][0]["withdrawFee"]) == ("ETH", "1")
    assert await client.sapiGetCapitalWithdrawHistory() == []
    assert await client.sapiGetCapitalDepositHisrec() == []
    assert (await client.sapiGetAccountStatus())["data"] == "Normal"
    assert (await client.sapiGetAccountApiRestrictions())["enableWithdrawals"] is True
    assert (await client.sapiGetSystemStatus())["status"] == 0
    address = await client.sapiGetCapitalDepositAddress({"coin": "USDC", "network": "ETH"})
    venue = paper_exchange.exchange.config.venues["venue_a"]
    assert address["address"] == venue.coins["USDC"].networks["ETH"].deposit_address
    assets = await client.sapiV3PostAssetGetUserAsset({"asset": "USDC"})
    assert [(row["asset"], row["free"]) for row in assets] == [("USDC", "5000")]
    account = await client.privateGetAccount({"omitZeroBalances": "true"})
    assert {row["asset"]: row["free"] for row in account["balances"]} == {
        "ETH": "100.00000000",
        "USDC": "5000.00000000",
    }


async def test_ccxt_unified_calls_read_the_same(paper_exchange: Serving, connect: Callable[..., Any]) -> None:
    client = connect(paper_exchange.address)
    client.options["fetchMargins"] = False
    currencies = await client.fetch_currencies()
    assert currencies["USDC"]["networks"]["ERC20"]["fee"] == 1
    assert await client.fetch_time() == pytest.approx(time.time() * 1000, abs=60_000)


@pytest.mark.parametrize(("key", "secret"), [("wrong-key", "x"), (None, "wrong-secret")])
async def test_ccxt_with_wrong_credentials_is_refused(
    paper_exchange: Serving, connect: Callable[..., Any], key: str | None, secret: str
) -> None:
    client = connect(paper_exchange.address, **({"key": key} if key else {}), secret=secret)
    with pytest.raises(ccxt.BaseError, match='"code": -2015' if key else '"code": -1022'):
        await client.sapiGetCapitalConfigGetall()


@pytest.mark.parametrize("skew", [-30_000, 30_000])
async def test_a_skewed_venue_clock_refuses_and_is_told_by_its_time(
    paper_exchange: Serving,
    connect: Callable[..., Any],
    open_control: Callable[[str], ExchangeControl],
    skew: int,
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.set_conditions("venue_a", clock_skew_ms=skew)
    with pytest.raises(ccxt.InvalidNonce, match='"code": -1021'):
        await client.sapiGetCapitalConfigGetall()
    assert await client.fetch_time() == pytest.approx(time.time() * 1000 + skew, abs=10_000)


async def test_a_path_that_binance_does_not_have_is_refused(paper_exchange: Serving) -> None:
    async with httpx.AsyncClient(base_url=paper_exchange.address, trust_env=False) as http:
        assert (await http.get("/venue_a/sapi/v1/nonsense")).status_code == 404
        assert (await http.get("/venue_z/api/v3/ping")).status_code == 404
        assert (await http.get("/venue_a/api/v3/ping")).json() == {}


async def test_answers_are_not_held_back_by_the_kernel(paper_exchange: Serving) -> None:
    delays: list[int] = []
    venue = paper_exchange.exchange.serve_venue

    async def look(request: Request) -> Response:
        accepted = request.state.connection.transport.get_extra_info("socket")
        delays.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return await venue(request)

    paper_exchange.app.router.routes[-1] = Route("/{venue}/{endpoint:path}", look)
    async with httpx.AsyncClient(base_url=paper_exchange.address, trust_env=False) as http:
        await http.get("/venue_a/api/v3/ping")
    assert delays == [1]
