"""Every way a submit can go wrong: nothing executed is called failed, nothing is sent twice, everything is found."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus

HTML = b"<html><body>error code</body></html>"
SILENT_STATUSES = (301, 302, 303, 307, 308, *range(400, 405), 407, 408, 409, 418, 423, 425, 429, 451, 499)
SERVER_STATUSES = (500, 501, 502, 503, 504, 505, 507, 511, 520, 521, 522, 523, 524, 525, 527, 530, 598, 599)
DOUBTFUL_CODES = (-1000, -1001, -1003, -1006, -1007, -1008, -1015, -4027, -4050, -9999)


def _json(status: int, body: Any) -> dict[str, Any]:
    return {"status": status, "body": json.dumps(body).encode()}


BODIES: dict[str, dict[str, Any]] = {
    "200 html": {"status": 200, "body": HTML, "kind": "text/html"},
    "200 empty": {"status": 200, "body": b""},
    "200 null": {"status": 200, "body": b"null"},
    "200 list": {"status": 200, "body": b"[]"},
    "200 object": {"status": 200, "body": b"{}"},
    "200 broken json": {"status": 200, "body": b'{"id": "w1'},
    "200 not utf-8": {"status": 200, "body": b'{"id": "\xff\xfe"}'},
    "200 id zero": _json(200, {"status": "error", "message": "balance is 0", "withdrawal_id": 0, "id": 0}),
    "200 id blank": _json(200, {"id": ""}),
    "200 id null": _json(200, {"id": None}),
    "200 id beside error": _json(200, {"code": -1021, "msg": "late", "id": "w77"}),
    "200 data list": _json(200, {"code": "0", "msg": "", "data": []}),
    "200 data object": _json(200, {"code": "200000", "data": {}}),
    "200 travel rule": _json(200, {"trId": 123, "accpted": False, "info": "held"}),
    "201 empty": {"status": 201, "body": b""},
    "202 empty": {"status": 202, "body": b""},
    "204": {"status": 204, "body": b""},
    "206 object": _json(206, {}),
    "400 duplicate": _json(400, {"code": -4999, "msg": "Duplicate withdrawOrderId"}),
    "500 listed code": _json(500, {"code": -1021, "msg": "Timestamp outside of the recvWindow."}),
    "409 listed code": _json(409, {"code": -2015, "msg": "Invalid API-key"}),
    "length too long": {"status": 200, "body": b'{"id":"w', "Content_Length": "400"},
    "chunk cut": {"status": 200, "body": b'40\r\n{"id":"w1', "Transfer_Encoding": "chunked"},
    "bad gzip": {"status": 200, "body": gzip.compress(b'{"id":"w1"}')[:10] + b"\xff" * 30, "Content_Encoding": "gzip"},
    "not gzip": {"status": 200, "body": b"{}", "Content_Encoding": "gzip"},
    **{f"{status} html": {"status": status, "body": HTML, "kind": "text/html"} for status in SERVER_STATUSES},
    **{
        f"{status} html": {"status": status, "body": HTML, "kind": "text/html", "Location": "http://127.0.0.1:1/x"}
        for status in SILENT_STATUSES
    },
    **{f"400 code {code}": _json(400, {"code": code, "msg": "?"}) for code in DOUBTFUL_CODES},
}
WAYS: dict[str, dict[str, Any]] = {
    "reply lost": {"no_bytes": True},
    "reply late": {"answer_after": 1.0},
    "executed after the client gave up": {"executes_after": 0.8, "answer_after": 1.0},
    "garbage": {"raw": b"\x00\x01\x02 no http at all\r\n\r\n"},
    "head cut": {"raw": b"HTTP/1.1 200 OK\r\nContent-Ty"},
    "replayed on the way": {
        "raw": b"HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n"
        b'{"code":-1021,"msg":"too late."}'
    },
}


async def _wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the stand-in never executed the withdrawal")


async def _found(lane: Any, work_order: Any, prepared: Any) -> Any:
    context = work_order({"prepared": prepared})
    return await lane.executor("withdrawal_action").recover(context)


def test_the_sweep_is_wide_enough() -> None:
    assert len(BODIES) + len(WAYS) >= 45


@pytest.mark.parametrize("name", [*BODIES, *WAYS])
async def test_an_executed_withdrawal_is_never_called_off_and_is_found(
    name: str, venue: Any, lane: Any, work_order: Any, response: Any
) -> None:
    how = WAYS[name] if name in WAYS else {"raw": response(**BODIES[name])}
    venue.on_submit(**how)
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())

    submitted = await action.submit(work_order(), prepared)
    await _wait_for(lambda: len(venue.withdrawals) == 1)
    again = await action.submit(work_order(), prepared)
    found = await _found(lane, work_order, prepared)

    assert submitted.status is ResultStatus.UNKNOWN
    assert again.status is ResultStatus.UNKNOWN
    assert venue.posts == 1
    assert len(venue.withdrawals) == 1
    assert found.status is ResultStatus.COMPLETED
    assert found.provider_refs["exchange_withdrawal_id"] == venue.withdrawals[0]["id"]


@pytest.mark.parametrize("name", [*BODIES, "reply lost", "garbage", "head cut"])
async def test_a_withdrawal_that_was_not_executed_is_unknown_and_stays_so_without_proof(
    name: str, venue: Any, lane: Any, work_order: Any, response: Any, clock: Any
) -> None:
    how = WAYS[name] if name in WAYS else {"raw": response(**BODIES[name])}
    venue.on_submit(executes=False, **how)
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())

    submitted = await action.submit(work_order(), prepared)
    clock.advance(3600)
    found = await _found(lane, work_order, prepared)

    assert submitted.status is ResultStatus.UNKNOWN
    assert found.status is ResultStatus.UNKNOWN
    assert venue.posts == 1


@pytest.mark.parametrize("code", [-1022, -1100, -1102, -1105, -2014, -2015, -4003, -4104, -4106])
async def test_a_listed_refusal_is_rejected(code: int, venue: Any, lane: Any, work_order: Any, response: Any) -> None:
    body = json.dumps({"code": code, "msg": "refused"}).encode()
    venue.on_submit(executes=False, raw=response(400, body))
    action = lane.executor("withdrawal_action")

    submitted = await action.submit(work_order(), await action.prepare(work_order()))

    assert submitted.status is ResultStatus.REJECTED
    assert submitted.error_code == str(code)
    assert venue.posts == 1


BALANCE_REFUSAL = b'{"code":-4026,"msg":"You have insufficient balance."}'
UNCLEAR_REFUSAL = b'{"code":-4001,"msg":"Invalid operation."}'
CLOCK_REFUSAL = b'{"code":-1021,"msg":"Timestamp outside of the recvWindow."}'


@pytest.fixture
def recovered(lane: Any, work_order: Any, clock: Any) -> Any:
    """What recover says some seconds after a submit, as the engine calls it."""

    async def look(prepared: Any, submitted: Any, after: float) -> Any:
        clock.advance(after)
        context = work_order({"prepared": prepared, "node_refs": submitted.provider_refs})
        return await lane.executor("withdrawal_action").recover(context)

    return look


@pytest.mark.parametrize(
    ("code", "body"), [("-1021", CLOCK_REFUSAL), ("-4001", UNCLEAR_REFUSAL), ("-4026", BALANCE_REFUSAL)]
)
async def test_what_a_copy_is_refused_with_is_believed_once_a_row_would_be_on_record(
    code: str, body: bytes, venue: Any, lane: Any, work_order: Any, response: Any, recovered: Any
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    venue.on_submit(executes=False, raw=response(400, body))

    submitted = await action.submit(work_order(), prepared)
    assert submitted.status is ResultStatus.UNKNOWN
    settle = lane.cex.accounts.account("venue_a").entry.settle_seconds
    assert settle > 0
    assert submitted.retry_after_seconds == settle

    early = await recovered(prepared, submitted, settle / 2)
    assert early.status is ResultStatus.UNKNOWN, "an empty look-up this early is no evidence"
    believed = await recovered(prepared, submitted, settle / 2 + 1)
    assert (believed.status, believed.error_code) == (ResultStatus.FAILED, code)


async def test_a_clock_refusal_of_a_replayed_copy_is_no_failure(
    venue: Any, lane: Any, work_order: Any, response: Any, recovered: Any
) -> None:
    """The first copy was taken; its row shows late. FAILED would have it paid again."""
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    venue.on_submit(executes=True, raw=response(400, CLOCK_REFUSAL))
    venue.on_history(raw=response(200, b"[]"))
    submitted = await action.submit(work_order(), prepared)
    assert submitted.status is ResultStatus.UNKNOWN
    assert (await recovered(prepared, submitted, 1)).status is ResultStatus.UNKNOWN
    venue.behave()
    assert (await recovered(prepared, submitted, 1)).status is ResultStatus.COMPLETED


async def test_a_clock_refusal_stays_unknown_when_the_look_up_fails(
    venue: Any, lane: Any, work_order: Any, response: Any, recovered: Any
) -> None:
    action = lane.executor("withdrawal_action")
    prepared = await action.prepare(work_order())
    venue.on_submit(executes=False, raw=response(400, CLOCK_REFUSAL))
    submitted = await action.submit(work_order(), prepared)
    venue.on_history(raw=response(503, HTML, "text/html"))
    assert (await recovered(prepared, submitted, 3600)).status is ResultStatus.UNKNOWN


async def test_another_attempts_refusal_proves_nothing(
    venue: Any, lane: Any, work_order: Any, response: Any, clock: Any
) -> None:
    action = lane.executor("withdrawal_action")
    first = await action.prepare(work_order())
    venue.on_submit(executes=False, raw=response(400, CLOCK_REFUSAL))
    submitted = await action.submit(work_order(), first)
    clock.advance(3600)
    second = work_order({"idempotency_key": "n1:2"})
    prepared = await action.prepare(second)
    context = second.model_copy(update={"prepared": prepared, "node_refs": submitted.provider_refs})
    assert (await action.recover(context)).status is ResultStatus.UNKNOWN


async def test_acceptance_carries_the_venues_id(venue: Any, lane: Any, work_order: Any) -> None:
    action = lane.executor("withdrawal_action")

    submitted = await action.submit(work_order(), await action.prepare(work_order()))

    assert submitted.status is ResultStatus.ACCEPTED
    assert submitted.provider_refs["exchange_withdrawal_id"] == venue.withdrawals[0]["id"]
