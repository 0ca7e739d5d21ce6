"""Every way in which an answer can be wrong. What may have moved money is UNKNOWN; a look says nothing at all."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qtg_dagster.domain.contract import PROTOCOL_VERSION, ResultStatus
from qtg_dagster.domain.errors import RemoteFault
from qtg_dagster.executors.message_auth import answer_headers
from qtg_dagster.executors.remote.executor import Timeouts
from tests.executors.remote.conftest import Connect
from tests.executors.remote.orders import OTHER_SECRET, SECRET, action, order
from tests.executors.remote.rude import Behaviour, Line, RudeServer, rude_server

S = ResultStatus
COMPLETED = {"protocol_version": PROTOCOL_VERSION, "result": {"status": "COMPLETED", "evidence": {"block": 7}}}
REFUSED = {
    "protocol_version": PROTOCOL_VERSION,
    "error": {"code": "MALFORMED", "message": "not a SubmitRequest", "nothing_done": True},
}


def result(**fields: Any) -> dict[str, Any]:
    return {**COMPLETED, "result": {"status": "COMPLETED", "evidence": {"block": 7}, **fields}}


def signing(status: int, document: Any, **rest: Any) -> Behaviour:
    async def behave(line: Line) -> None:
        await line.sign(status, document, **rest)

    return behave


async def lost_after_executing(line: Line) -> None:
    """The connection ends without a byte."""


async def slow(line: Line) -> None:
    await asyncio.Event().wait()


async def dripping(line: Line) -> None:
    """Always a little more, never the end."""
    await line.write(200, b"", {}, length=1_000_000)
    with contextlib.suppress(ConnectionError):
        while True:
            line.writer.write(b" ")
            await line.writer.drain()
            await asyncio.sleep(0.02)


async def ten_megabytes(line: Line) -> None:
    await line.sign(200, json.dumps(result(artifacts={"x": "y" * 10_000_000})).encode())


async def endless_headers(line: Line) -> None:
    await line.write(200, b"", {"X-Long": "y" * 1_000_000})


async def cut_in_the_body(line: Line) -> None:
    body = json.dumps(COMPLETED).encode()
    signed = answer_headers(SECRET, nonce=line.asked.nonce, status=200, body=body)
    await line.write(200, body[:-9], signed, length=len(body))


async def not_http(line: Line) -> None:
    line.writer.write(b"220 mail.example.org ESMTP\r\n")


async def unsigned(line: Line) -> None:
    await line.write(200, json.dumps(COMPLETED).encode(), {})


async def changed_on_the_way(line: Line) -> None:
    unknown = json.dumps(result(status="UNKNOWN")).encode()
    signed = answer_headers(SECRET, nonce=line.asked.nonce, status=200, body=unknown)
    await line.write(200, json.dumps(COMPLETED).encode(), signed)


async def other_status_on_the_way(line: Line) -> None:
    body = json.dumps(REFUSED).encode()
    await line.write(400, body, answer_headers(SECRET, nonce=line.asked.nonce, status=500, body=body))


async def unsigned_refusal(line: Line) -> None:
    await line.write(400, json.dumps(REFUSED).encode(), {})


async def compressed(line: Line) -> None:
    await line.sign(200, gzip.compress(json.dumps(COMPLETED).encode()), **{"Content-Encoding": "gzip"})


def redirect(status: int) -> Behaviour:
    return signing(status, COMPLETED, Location="/elsewhere")


FAULTS: dict[str, tuple[str, Behaviour]] = {
    "lost after executing": ("LOST", lost_after_executing),
    "slow": ("LATE", slow),
    "dripping": ("LATE", dripping),
    "a body of 10 MB": ("OVERSIZED", ten_megabytes),
    "headers of 1 MB": ("LOST", endless_headers),
    "cut in the body": ("LOST", cut_in_the_body),
    "not HTTP": ("LOST", not_http),
    "truncated JSON, signed": ("MALFORMED", signing(200, json.dumps(COMPLETED).encode()[:-4])),
    "not JSON": ("MALFORMED", signing(200, b"<html>busy</html>")),
    "nested without end": ("MALFORMED", signing(200, b"[" * 100_000)),
    "a list": ("MALFORMED", signing(200, b"[]")),
    "empty": ("MALFORMED", signing(200, b"")),
    "not a number": ("MALFORMED", signing(200, json.dumps(result(retry_after_seconds=float("nan"))).encode())),
    "not a number, in the evidence": (
        "MALFORMED",
        signing(200, json.dumps(result(evidence={"fee": float("inf")})).encode()),
    ),
    "wrong version": ("WRONG_VERSION", signing(200, {**COMPLETED, "protocol_version": "2.0"})),
    "no version": ("WRONG_VERSION", signing(200, {"result": COMPLETED["result"]})),
    "wrongly typed": ("MALFORMED", signing(200, json.dumps(result(retry_after_seconds="5")).encode())),
    "a status that does not exist": ("MALFORMED", signing(200, result(status="DONE"))),
    "a field too many": ("MALFORMED", signing(200, result(sure=True))),
    "completed without evidence": ("NO_EVIDENCE", signing(200, result(evidence={}))),
    "a status of preflight alone": ("WRONG_STATUS", signing(204, b"")),
    "accepted, by HTTP": ("WRONG_STATUS", signing(202, COMPLETED)),
    "redirect 302": ("REDIRECTED", redirect(302)),
    "redirect 307": ("REDIRECTED", redirect(307)),
    "redirect 308": ("REDIRECTED", redirect(308)),
    "unsigned": ("UNSIGNED", unsigned),
    "wrong signature": ("UNSIGNED", signing(200, COMPLETED, secret=OTHER_SECRET)),
    "answer to another request": ("UNSIGNED", signing(200, COMPLETED, nonce="0" * 32)),
    "changed on the way": ("UNSIGNED", changed_on_the_way),
    "status changed on the way": ("UNSIGNED", other_status_on_the_way),
    "compressed": ("ENCODED", compressed),
    "200 with an error document": ("MALFORMED", signing(200, REFUSED)),
    "500 after executing": ("MALFORMED", signing(500, b"Internal Server Error")),
    "500 that claims that nothing was done": ("MALFORMED", signing(500, REFUSED)),
    "4xx that is no error document": ("MALFORMED", signing(409, COMPLETED)),
    "refusal that nobody signed": ("UNSIGNED", unsigned_refusal),
}


@pytest.fixture(params=FAULTS, ids=lambda name: str(name).replace(" ", "-"))
def fault(request: pytest.FixtureRequest) -> tuple[str, Behaviour]:
    return FAULTS[request.param]


QUICK = Timeouts(submit=0.4, observe=0.4, recover=0.4)


async def asked_once(server: RudeServer, path: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """What the call gives; fails when the service was asked anything but this, once."""
    try:
        return await call()
    finally:
        assert [asked.path for asked in server.asked] == [path]


def patience(fault: tuple[str, Behaviour]) -> Timeouts:
    return QUICK if fault[0] == "LATE" else Timeouts()


async def test_a_submit_is_unknown_with_evidence(fault: tuple[str, Behaviour], connect: Connect) -> None:
    code, behaviour = fault
    async with rude_server(behaviour) as server:
        remote = connect(server.url, timeouts=patience(fault))
        found = await asked_once(server, "/submit", lambda: remote.submit(order(), action()))
    assert found.status is S.UNKNOWN
    assert found.error_code == f"REMOTE_{code}"
    assert found.evidence["fault"] == code
    assert found.evidence["nonce"] == server.asked[0].nonce
    assert found.evidence["sent"] is True


@pytest.mark.parametrize("method", ["observe", "recover"])
async def test_a_look_raises_and_decides_nothing(fault: tuple[str, Behaviour], method: str, connect: Connect) -> None:
    code, behaviour = fault
    async with rude_server(behaviour) as server:
        remote = connect(server.url, timeouts=patience(fault))
        with pytest.raises(RemoteFault) as raised:
            await asked_once(server, f"/{method}", lambda: getattr(remote, method)(order()))
    assert raised.value.code == code


MAY_NOT = [
    *(("submit", status) for status in ("OBSERVING", "FAILED")),
    *(("observe", status) for status in ("REJECTED", "NOT_SENT")),
    *(("recover", status) for status in ("REJECTED", "NOT_SENT")),
]


@pytest.mark.parametrize(("method", "status"), MAY_NOT)
async def test_a_result_that_the_method_may_not_answer_is_a_fault(method: str, status: str, connect: Connect) -> None:
    async with rude_server(signing(200, result(status=status))) as server:
        remote = connect(server.url)
        if method == "submit":
            found = await remote.submit(order(), action())
            assert (found.status, found.error_code) == (S.UNKNOWN, "REMOTE_WRONG_RESULT")
        else:
            with pytest.raises(RemoteFault, match="WRONG_RESULT"):
                await getattr(remote, method)(order())


async def test_an_answer_caught_earlier_is_not_believed_again(connect: Connect) -> None:
    """Somebody between the two keeps a true COMPLETED and gives it to the next attempt."""
    caught: list[tuple[bytes, dict[str, str]]] = []

    async def replay(line: Line) -> None:
        body = json.dumps(COMPLETED).encode()
        caught.append((body, answer_headers(SECRET, nonce=line.asked.nonce, status=200, body=body)))
        await line.write(200, *caught[0])

    async with rude_server(replay) as server:
        remote = connect(server.url)
        assert (await remote.submit(order(1), action())).status is S.COMPLETED
        again = await remote.submit(order(2), action())
    assert (again.status, again.error_code) == (S.UNKNOWN, "REMOTE_UNSIGNED")


async def test_a_signed_refusal_that_proves_that_nothing_was_done_is_not_sent(connect: Connect) -> None:
    async with rude_server(signing(400, REFUSED)) as server:
        found = await connect(server.url).submit(order(), action())
    assert (found.status, found.error_code) == (S.NOT_SENT, "REMOTE_MALFORMED")
    assert found.evidence["http_status"] == 400


@pytest.mark.parametrize("status", [400, 409, 422, 429])
async def test_a_refusal_that_proves_nothing_is_unknown(status: int, connect: Connect) -> None:
    unsure = {**REFUSED, "error": {**REFUSED["error"], "nothing_done": False}}  # type: ignore[dict-item]
    async with rude_server(signing(status, unsure)) as server:
        found = await connect(server.url).submit(order(), action())
    assert found.status is S.UNKNOWN


async def test_cookies_are_not_kept(connect: Connect) -> None:
    async with rude_server(signing(200, COMPLETED, **{"Set-Cookie": "who=ada; Path=/"})) as server:
        remote = connect(server.url)
        await remote.observe(order())
        await remote.observe(order())
    assert len(server.asked) == 2
    assert not any("cookie" in asked.headers for asked in server.asked)


async def test_proxies_of_the_environment_are_not_used(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with rude_server(signing(200, COMPLETED)) as server:
        assert (await connect(server.url).observe(order())).status is S.COMPLETED


@pytest.mark.parametrize("method", ["preflight", "prepare"])
async def test_before_the_intent_a_fault_is_raised(method: str, connect: Connect) -> None:
    async with rude_server(lost_after_executing) as server:
        with pytest.raises(RemoteFault, match="LOST"):
            await getattr(connect(server.url), method)(order())
