"""Every fault: what the client gets, and whether the venue executed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import ccxt.async_support as ccxt
import httpx
import pytest

from qtg_dagster.sandbox.exchange.control import WITHDRAW, ControlRefused, ExchangeControl
from qtg_dagster.sandbox.exchange.faults import Fault, FaultKind, FaultQueue
from qtg_dagster.sandbox.exchange.server import Serving

GOOD = {"coin": "ETH", "network": "ETH", "address": "0x" + "cd" * 20, "amount": "1.5", "withdrawOrderId": "leg1"}
K = FaultKind

Control = Callable[[str], ExchangeControl]
Connect = Callable[..., Any]
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def outcome(client: Any) -> str:
    """What a caller of ccxt sees of a submit: its answer or the exception's class."""
    try:
        answer = await client.sapiPostCapitalWithdrawApply(GOOD)
    except ccxt.BaseError as error:
        return type(error).__name__
    return "id" if isinstance(answer, dict) and answer.get("id") else repr(answer)[:20]


@pytest.mark.parametrize(
    ("kind", "details", "seen", "executed"),
    [
        (K.LOSE_REPLY_AFTER_EXECUTION, {}, "ExchangeNotAvailable", True),
        (K.LOSE_REPLY_BEFORE_EXECUTION, {}, "ExchangeNotAvailable", False),
        (K.EXECUTE_THEN_500, {}, "ExchangeNotAvailable", True),
        (K.EXECUTE_THEN_500, {"executes": False}, "ExchangeNotAvailable", False),
        (K.HTTP_524_HTML, {}, "'<html><head><title>", True),
        (K.HTTP_524_HTML, {"executes": False}, "'<html><head><title>", False),
        (K.OK_HTML_200, {}, "'<html><head><title>", True),
        (K.EMPTY_200, {}, "''", True),
        (K.TRUNCATED_BODY, {}, "ExchangeError", True),
        (K.BAD_GZIP, {}, "ExchangeError", True),
        (K.DELAY_SECONDS, {"seconds": 0.05}, "id", True),
        (K.DELAY_EXECUTION, {"seconds": 0.05}, "id", True),
        (K.REPLY, {"body": '{"code":"0","msg":"","data":[]}'}, "{'code': '0', 'msg':", False),
        (K.REPLY, {"body": "{}", "executes": True}, "{}", True),
        (K.REPLY, {"status": 400, "body": '{"code":-1001,"msg":"internal"}'}, "OperationFailed", False),
        (K.REPLY, {"status": 429, "body": '{"code":-1003,"msg":"slow down"}'}, "DDoSProtection", False),
        (K.REPLY, {"status": 204, "body": "ignored"}, "''", False),
    ],
)
async def test_a_fault_gives_its_reply_and_executes_as_told(
    paper_exchange: Serving,
    connect: Connect,
    open_control: Control,
    kind: FaultKind,
    details: dict[str, Any],
    seen: str,
    executed: bool,
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    client.get_exceptions_by_url = _as_if_on_binance(client)
    await control.order(kind, venue="venue_a", **details)
    assert await outcome(client) == seen
    assert len(await control.withdrawals("venue_a")) == int(executed)
    (request,) = await control.requests(endpoint=WITHDRAW)
    assert (request["fault"], request["outcome"]) == (kind, "executed" if executed else "not executed")
    assert await control.faults() == []
    assert await outcome(client) == "id"


def _as_if_on_binance(client: Any) -> Callable[[Any, str], Any]:
    original = client.get_exceptions_by_url
    return lambda _url, kind: original("https://api.binance.com/", kind)


async def test_a_client_that_gives_up_first_still_has_its_withdrawal(
    paper_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually
) -> None:
    client = connect(paper_exchange.address, timeout=200)
    control = open_control(paper_exchange.address)
    await control.order(K.DELAY_EXECUTION, seconds=1)
    assert await outcome(client) == "RequestTimeout"
    assert await control.withdrawals("venue_a") == []
    assert await eventually(lambda: control.withdrawals("venue_a"))


async def test_a_late_execution_happens_after_the_connection_is_gone(
    paper_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.order(K.LATE_EXECUTION, seconds=0.5)
    assert await outcome(client) == "ExchangeNotAvailable"
    assert await control.withdrawals("venue_a") == []
    (row,) = await eventually(lambda: control.withdrawals("venue_a"))
    assert row["order_id"] == "leg1"


async def test_a_late_execution_of_a_bad_request_stays_refused(
    paper_exchange: Serving, connect: Connect, open_control: Control, eventually: Eventually
) -> None:
    client, control = connect(paper_exchange.address, secret="wrong"), open_control(paper_exchange.address)
    await control.order(K.LATE_EXECUTION, seconds=0)
    assert await outcome(client) == "ExchangeNotAvailable"

    async def refused() -> bool:
        return (await control.requests(endpoint=WITHDRAW))[0]["outcome"] == "refused -1022"

    assert await eventually(refused)
    assert await control.withdrawals("venue_a") == []


async def test_a_redirect_is_sent_and_a_client_that_follows_posts_twice(
    paper_exchange: Serving, connect: Connect, open_control: Control
) -> None:
    client, control = connect(paper_exchange.address), open_control(paper_exchange.address)
    await control.order(K.REDIRECT_307, executes=True)
    assert await outcome(client) == "id"
    assert [row["fault"] for row in await control.requests(endpoint=WITHDRAW)] == ["redirect_307", None]
    assert len(await control.withdrawals("venue_a")) == 2


async def test_a_redirect_goes_where_it_is_told(paper_exchange: Serving, open_control: Control) -> None:
    control = open_control(paper_exchange.address)
    await control.order(K.REDIRECT_307, endpoint="*", location="http://elsewhere.invalid/")
    async with httpx.AsyncClient(trust_env=False) as http:
        reply = await http.get(f"{paper_exchange.address}/venue_a/api/v3/ping")
    assert (reply.status_code, reply.headers["location"]) == (307, "http://elsewhere.invalid/")


async def test_a_reply_carries_the_headers_it_is_told(paper_exchange: Serving, open_control: Control) -> None:
    control = open_control(paper_exchange.address)
    await control.order(K.REPLY, endpoint="*", status=429, headers={"retry-after": "30"})
    async with httpx.AsyncClient(trust_env=False) as http:
        reply = await http.get(f"{paper_exchange.address}/venue_a/api/v3/ping")
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "30")


async def test_a_lost_reply_sends_no_byte(paper_exchange: Serving, open_control: Control) -> None:
    await open_control(paper_exchange.address).order(K.LOSE_REPLY_AFTER_EXECUTION, endpoint="*")
    async with httpx.AsyncClient(trust_env=False) as http:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await http.get(f"{paper_exchange.address}/venue_a/api/v3/ping")
        assert (await http.get(f"{paper_exchange.address}/venue_a/api/v3/ping")).json() == {}


def test_faults_hit_the_nth_and_the_next_n_and_nothing_else() -> None:
    queue = FaultQueue()
    queue.add(Fault(kind=K.EMPTY_200, venue="venue_a", endpoint="/x", skip=1, times=2))
    taken = [
        queue.take(venue, path) for venue, path in [("venue_b", "/x"), ("venue_a", "/y")] + [("venue_a", "/x")] * 4
    ]
    assert [fault is not None for fault in taken] == [False, False, False, True, True, False]
    assert queue.waiting() == {}


def test_one_request_takes_the_first_fault_only() -> None:
    queue = FaultQueue()
    queue.add(Fault(kind=K.EMPTY_200))
    queue.add(Fault(kind=K.BAD_GZIP))
    kinds = [fault.kind if (fault := queue.take("v", "/x")) else None for _ in range(3)]
    assert kinds == [K.EMPTY_200, K.BAD_GZIP, None]


async def test_the_control_api_refuses_strangers_and_nonsense(paper_exchange: Serving, open_control: Control) -> None:
    async with httpx.AsyncClient(base_url=paper_exchange.address, trust_env=False) as http:
        assert (await http.get("/_control/moves")).status_code == 401
        stranger = {"authorization": "Bearer guess"}
        assert (await http.post("/_control/pause_payouts", headers=stranger)).status_code == 401
    control = open_control(paper_exchange.address)
    with pytest.raises(ControlRefused, match="404"):
        await control.order(K.EMPTY_200, venue="venue_z")
    with pytest.raises(ControlRefused, match="422"):
        await control.set_conditions("venue_a", no_such_condition=True)
    async with httpx.AsyncClient(base_url=paper_exchange.address, trust_env=False) as http:
        us = {"authorization": f"Bearer {paper_exchange.exchange.config.control_token.get_secret_value()}"}
        assert (await http.post("/_control/faults", headers=us, content=b"{nonsense")).status_code == 422
        assert (await http.get("/_control/moves", headers=us, params={"after": "x"})).status_code == 422
        assert (await http.get("/_control/deposits", headers=us)).status_code == 404
    await control.order(K.EMPTY_200)
    await control.clear_faults()
    assert await control.faults() == []
