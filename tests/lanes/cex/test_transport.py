"""The transport over the real ccxt client: one request a call, a truthful send marker, no secret anywhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.redaction import REDACTED
from qtg_dagster.lanes.cex.transport import Credentials, Transport, refuse_retries
from qtg_dagster.lanes.cex.venue import Call, Order, Unlisted
from qtg_dagster.lanes.cex.venues.binance import VENUE
from qtg_dagster.secret import Secret

KEY, SECRET = "key-of-the-treasury-account", "secret-nobody-may-ever-see"
CREDENTIALS = Credentials(Secret(KEY), Secret(SECRET))


def submit_call(**changes: Any) -> Call:
    fields = {
        "coin": "USDC",
        "network": "ETH",
        "address": "0x" + "ab" * 20,
        "memo": None,
        "amount": "12.5",
        "client_id": "c1",
    }
    return VENUE.submit(Order(**{**fields, **changes}), datetime.now(UTC))


@pytest.fixture
async def transport(venue: Any) -> AsyncIterator[Transport]:
    client = Transport("binance", CREDENTIALS, base_url=venue.base_url, timeout_seconds=0.6)
    yield client
    await client.close()


async def unsent(base_url: str) -> bool:
    client = Transport("binance", CREDENTIALS, base_url=base_url, timeout_seconds=2)
    try:
        reply = await client.call(submit_call())
    finally:
        await client.close()
    assert reply.error is not None
    return not reply.sent


async def test_a_refused_connection_is_proof_of_not_sent() -> None:
    assert await unsent("http://127.0.0.1:1")


async def test_an_unknown_host_is_proof_of_not_sent() -> None:
    assert await unsent("https://venue.invalid")


async def test_a_failed_tls_handshake_is_proof_of_not_sent(venue: Any) -> None:
    assert await unsent(f"https://127.0.0.1:{venue.port}")
    assert venue.posts == 0


async def test_a_signed_request_is_accepted_and_its_reply_is_raw(venue: Any, transport: Transport) -> None:
    reply = await transport.call(submit_call())
    assert reply.sent
    assert reply.status == 200
    assert reply.json == {"id": venue.withdrawals[0]["id"]}


async def test_a_wrong_secret_is_refused_by_the_venue(venue: Any) -> None:
    client = Transport("binance", Credentials(Secret(KEY), Secret("another")), base_url=venue.base_url)
    reply = await client.call(submit_call())
    await client.close()
    assert reply.json["code"] == -1022
    assert venue.withdrawals == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_not_followed(
    status: int, venue: Any, transport: Transport, response: Any
) -> None:
    again = f"{venue.base_url}/sapi/v1/capital/withdraw/apply"
    venue.on_submit(raw=response(status, b"", Location=again))
    reply = await transport.call(submit_call())
    assert reply.sent
    assert reply.status == status
    assert reply.json is None
    assert venue.posts == 1
    assert "RedirectRefused" in str(reply.error)


@pytest.mark.parametrize("options", [{"maxRetriesOnFailure": 3}, {"spot": {"maxRetriesOnFailure": 1}}])
async def test_a_client_that_would_repeat_requests_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="maxRetriesOnFailure"):
        Transport("binance", CREDENTIALS, options=options)


async def test_retries_switched_on_later_are_refused_before_the_network(venue: Any, transport: Transport) -> None:
    await transport.call(VENUE.server_time())
    transport._client.options["maxRetriesOnFailure"] = 3
    with pytest.raises(ConfigurationError, match="maxRetriesOnFailure"):
        await transport.call(submit_call())
    assert venue.posts == 0


async def test_even_a_forced_retry_sends_one_request(
    venue: Any, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    venue.on_submit(no_bytes=True)
    await transport.call(VENUE.server_time())
    transport._client.options["maxRetriesOnFailure"] = 3
    monkeypatch.setattr("qtg_dagster.lanes.cex.transport.refuse_retries", lambda *_, **__: None)
    reply = await transport.call(submit_call())
    assert reply.sent
    assert "SecondRequestRefused" in str(reply.error)
    assert venue.posts == 1
    assert len(venue.withdrawals) == 1


def test_no_retries_is_fine_at_any_depth() -> None:
    refuse_retries({"maxRetriesOnFailure": 0, "spot": {"maxRetriesOnFailure": None}}, where="options")


async def test_numbers_are_refused_as_parameters(transport: Transport) -> None:
    with pytest.raises(TypeError, match="amount"):
        await transport.call(Call("sapiPostCapitalWithdrawApply", {"amount": 1e-7}))  # type: ignore[dict-item]


@pytest.mark.parametrize("memo", ["a&amount=999", "x=y", "50% off+1", "메모 1", "007"])
async def test_a_memo_cannot_smuggle_in_parameters(memo: str, venue: Any, transport: Transport) -> None:
    await transport.call(submit_call(memo=memo))
    _, _, params = venue.requests[-1]
    assert params["addressTag"] == memo
    assert params["amount"] == "12.5"
    assert len(venue.withdrawals) == 1


async def test_secrets_stay_out_of_replies_and_logs(
    venue: Any, transport: Transport, response: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    window_call = VENUE.balances()
    venue.on("/venue_a/sapi/v1/account/apiRestrictions", raw=response(500, b"no", "text/plain"))
    failed = await transport.call(VENUE.permissions())
    await transport.call(window_call)
    seen = caplog.text + str(failed) + str(failed.evidence()) + repr(transport.__dict__["_credentials"])
    assert "500" in str(failed.error)
    for secret in (KEY, SECRET, "signature="):
        assert secret not in seen.replace("signature=[redacted]", "")


async def test_a_page_that_echoes_our_key_is_redacted(venue: Any, transport: Transport, response: Any) -> None:
    page = f"<html>blocked: X-MBX-APIKEY {KEY}, {SECRET}</html>".encode()
    venue.on_submit(raw=response(403, page, "text/html"))
    reply = await transport.call(submit_call())
    seen = f"{reply} {reply.evidence()}"
    assert "blocked" in seen
    assert KEY not in seen
    assert SECRET not in seen


async def test_a_json_reply_that_echoes_our_key_is_redacted(venue: Any, transport: Transport, response: Any) -> None:
    body = f'{{"code": -2015, "msg": "key {KEY} is not permitted, {SECRET}"}}'.encode()
    venue.on_submit(raw=response(400, body, "application/json"))
    reply = await transport.call(submit_call())
    assert reply.json["code"] == -2015
    seen = f"{reply} {reply.evidence()}"
    assert "is not permitted" in seen
    assert KEY not in seen
    assert SECRET not in seen


@pytest.fixture
def limited(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> Transport:
    """The transport as it is towards a venue on the network: it keeps to the venue's rate limit."""
    monkeypatch.setattr(Transport, "is_local", property(lambda _: False))
    return transport


async def test_a_withdrawal_has_its_wait_before_it_is_signed(limited: Transport) -> None:
    """Held up after its time was stamped, it would reach the venue too old, and a burst of them would be refused."""
    await limited.ready_to_submit(6.0)
    waited: list[float | None] = []

    async def throttler(cost: float | None) -> None:
        waited.append(cost)

    limited._client.throttler = throttler
    await limited.ready_to_submit(6.0)
    assert waited == [6.0]
    assert (await limited.call(submit_call())).status == 200
    assert waited == [6.0], "no second wait between signing and sending"
    await limited.call(VENUE.server_time())
    assert len(waited) == 2, "reads wait as ever"


async def test_the_venues_own_error_tables_are_found_under_another_address(venue: Any, transport: Transport) -> None:
    await transport.call(VENUE.server_time())
    client = transport._client
    local = client.get_exceptions_by_url(f"{venue.base_url}/sapi/v1/capital/withdraw/apply", "exact")
    assert local["-4026"].__name__ == "InsufficientFunds"
    assert all(str(url).startswith(venue.base_url) for url in client.urls["api"].values() if isinstance(url, str))


@pytest.mark.parametrize(
    "base_url", ["http://venue.example", "ftp://127.0.0.1", "https://", "https://a:b@venue.example", "venue"]
)
def test_an_unsafe_address_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        Transport("binance", CREDENTIALS, base_url=base_url)


async def test_calls_at_once_keep_their_replies_apart(venue: Any, transport: Transport) -> None:
    replies = await asyncio.gather(*(transport.call(submit_call(client_id=f"c{n}")) for n in range(20)))
    by_client = {row["withdrawOrderId"]: row["id"] for row in venue.withdrawals}
    assert [reply.json["id"] for reply in replies] == [by_client[f"c{n}"] for n in range(20)]


async def test_cancellation_is_passed_on(venue: Any, transport: Transport) -> None:
    await transport.call(VENUE.server_time())
    venue.on_submit(answer_after=30)
    task = asyncio.create_task(transport.call(submit_call()))
    for _ in range(200):
        if venue.posts:
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_one_transport_serves_one_event_loop_after_another() -> None:
    client = Transport("binance", CREDENTIALS, base_url="http://127.0.0.1:1")

    async def ask() -> bool:
        reply = await client.call(VENUE.server_time())
        await client.close()
        return reply.sent

    assert [asyncio.run(ask()), asyncio.run(ask())] == [False, False]


@pytest.mark.parametrize(("one_at_a_time", "most"), [(True, 1), (False, 2)])
async def test_where_nonces_must_rise_no_request_overtakes_another(one_at_a_time: bool, most: int) -> None:
    """Each request is held until another one is there too, or for a moment when none can be."""
    here, peak, met = 0, 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal here, peak
        await reader.readuntil(b"\r\n\r\n")
        here += 1
        peak = max(peak, here)
        if here > 1:
            met.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(met.wait(), 0.3)
        here -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = Transport("binance", CREDENTIALS, base_url=base_url, one_at_a_time=one_at_a_time)
    try:
        replies = await asyncio.gather(*(client.call(Call("publicGetTime")) for _ in range(2)))
    finally:
        await client.close()
        server.close()
        await server.wait_closed()
    assert [reply.status for reply in replies] == [200, 200]
    assert peak == most


async def test_a_passphrase_is_nowhere_to_be_seen() -> None:
    whole = Credentials(Secret(KEY), Secret(SECRET), Secret("passphrase-nobody-may-see"))
    client = Transport("okx", whole, base_url="http://127.0.0.1:1")
    try:
        assert client._without_keys(f"{KEY} {SECRET} passphrase-nobody-may-see").split() == [REDACTED] * 3
        assert (await client._open()).password == "passphrase-nobody-may-see"
    finally:
        await client.close()
    assert "passphrase-nobody" not in repr(whole)


async def test_an_endpoint_that_ccxt_does_not_list_is_signed_all_the_same(venue: Any, transport: Transport) -> None:
    path = "/venue_a/sapi/v2/localentity/withdraw/history"
    venue.answers[path] = [{"trId": 7}]
    asked = Unlisted("sapiV2", "GET", "localentity/withdraw/history", cost=2.0)
    reply = await transport.call(Call("sapiV2GetLocalentityWithdrawHistory", {"trId": "7"}, unlisted=asked))
    assert (reply.status, reply.json) == (200, [{"trId": 7}])
    method, seen, params = venue.requests[-1]
    assert (method, seen, params["trId"]) == ("GET", path, "7")


async def test_fractions_are_refused_in_objects_too(transport: Transport) -> None:
    with pytest.raises(TypeError):
        await transport.call(Call("publicGetTime", objects={"beneficiary": {"amount": 0.1}}))


async def test_what_is_private_is_not_in_what_comes_back(venue: Any, transport: Transport, response: Any) -> None:
    path = "/venue_a/sapi/v1/localentity/withdraw/apply"
    body = b'{"code":-1,"msg":"Wilhelmina of QUISTGAARD is not known"}'
    call = VENUE.with_beneficiary(submit_call(), {"bnfName": "Wilhelmina", "vasp": "Quistgaard"})
    private = replace(call, private=("Wilhelmina", "Quistgaard"))
    for raw in (response(400, body), response(400, body[:-1]), response(200, b"<p>Wilhelmina</p>", "text/html")):
        venue.on(path, raw=raw)
        reply = await transport.call(private)
        assert reply.sent
        assert "wilhelmina" not in f"{reply}{private}".lower()
        assert "quistgaard" not in f"{reply}{private}".lower()
    assert venue.requests[-1][2]["questionnaire"] == '{"bnfName":"Wilhelmina","vasp":"Quistgaard"}'
