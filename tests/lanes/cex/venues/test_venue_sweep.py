"""Every fault at every venue: nothing executed is called off, nothing is asked for twice, all is accounted for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.lanes.cex.venue import Repeats
from qtg_dagster.sandbox.exchange.control import WITHDRAWAL_HISTORY
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.lanes.cex.venues.bench import Bench, benches

K = FaultKind
Fault = tuple[FaultKind, dict[str, Any]]
_STATUSES = (400, 401, 403, 404, 408, 409, 418, 423, 425, 429, 499, 500, 502, 503, 504, 507, 520, 522, 523, 525, 599)
_BODIES = {
    "null": "null",
    "list": "[]",
    "object": "{}",
    "text": '"ok"',
    "half": '{"id": "w1',
    "id zero": '{"status":"error","message":"balance is 0","withdrawal_id":0,"fees":"0.0027"}',
    "another venue's": '{"code":"200000","data":{}}',
}


def _html(status: int, executes: bool) -> Fault:
    return K.REPLY, {"status": status, "body": "<html>", "content_type": "text/html", "executes": executes}


ANYWHERE: dict[str, Fault] = {
    "reply lost": (K.LOSE_REPLY_AFTER_EXECUTION, {}),
    "request lost": (K.LOSE_REPLY_BEFORE_EXECUTION, {}),
    "500": (K.EXECUTE_THEN_500, {}),
    "500, not executed": (K.EXECUTE_THEN_500, {"executes": False}),
    "524": (K.HTTP_524_HTML, {}),
    "524, not executed": (K.HTTP_524_HTML, {"executes": False}),
    "200 html": (K.OK_HTML_200, {}),
    "200 empty": (K.EMPTY_200, {}),
    "cut short": (K.TRUNCATED_BODY, {}),
    "bad gzip": (K.BAD_GZIP, {}),
    "redirect": (K.REDIRECT_307, {}),
    "redirect, executed": (K.REDIRECT_307, {"executes": True}),
    "answers late": (K.DELAY_SECONDS, {"seconds": 0.8}),
    "executes late, answers late": (K.DELAY_EXECUTION, {"seconds": 0.8}),
    "executes after hanging up": (K.LATE_EXECUTION, {"seconds": 0.2}),
    "arrives twice, first answered": (K.DUPLICATE_REQUEST, {"answered": "first"}),
    "arrives twice, second answered": (K.DUPLICATE_REQUEST, {"answered": "second"}),
    "201": (K.REPLY, {"status": 201, "executes": True}),
    "202": (K.REPLY, {"status": 202, "executes": True}),
    "204": (K.REPLY, {"status": 204, "executes": True}),
    "204, not executed": (K.REPLY, {"status": 204}),
    **{f"{status} html": _html(status, True) for status in _STATUSES},
    **{f"200 {name}": (K.REPLY, {"body": body, "executes": True}) for name, body in _BODIES.items()},
}


def faults_of(bench: Bench) -> dict[str, Fault]:
    """The faults of every venue, and what this one may say besides."""
    own = {
        name: (K.REPLY, {"status": status, "body": json.dumps(body), "executes": True})
        for name, (status, body) in bench.doubtful.items()
    }
    return ANYWHERE | own


CASES = [
    pytest.param(bench, fault, id=f"{bench.wire}-{name}")
    for bench in benches()
    for name, fault in faults_of(bench).items()
]


@pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
def test_the_sweep_is_wide_enough(bench: Bench) -> None:
    assert len(faults_of(bench)) >= 45
    assert len(bench.doubtful) >= 6


@pytest.mark.parametrize(("bench", "fault"), CASES)
async def test_whatever_goes_wrong_the_books_agree(bench: Bench, fault: Fault, open_desk: Any, order: Any) -> None:
    kind, details = fault
    desk = await open_desk(bench, patience=0.5 if "DELAY" in kind.name else 1)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(kind, venue="venue_a", **details)

    submitted = await action.submit(order(), prepared)
    if "DELAY" in kind.name or "LATE" in kind.name:
        await _until_executed(desk)
    again = await action.submit(order(), prepared)
    recovered = await action.recover(order({"prepared": prepared, "node_refs": submitted.provider_refs}))

    executed = await desk.executed()
    assert await desk.posts() == 1
    assert await desk.control.faults() == [], "the fault hit"
    assert again.status is ResultStatus.UNKNOWN
    assert submitted.status in (ResultStatus.UNKNOWN, ResultStatus.ACCEPTED)
    if not executed:
        assert (submitted.status, recovered.status) == (ResultStatus.UNKNOWN, ResultStatus.UNKNOWN)
    elif len(executed) == 1 and submitted.status is ResultStatus.ACCEPTED:
        assert recovered.status is ResultStatus.COMPLETED, recovered
        assert recovered.provider_refs["exchange_withdrawal_id"] == executed[0]["id"]
    elif len(executed) == 1:
        assert bench.accounts_for(recovered, executed[0]), recovered
    else:
        _is_for_a_person(recovered, executed)


def _is_for_a_person(answer: ExecutionResult, executed: list[dict[str, Any]]) -> None:
    """A copy that a middlebox made was executed too: no rule tells which is ours, so a person gets to see both."""
    assert answer.status is ResultStatus.UNKNOWN, answer
    assert answer.evidence["operator"]
    assert all(row["id"] in json.dumps(answer.evidence["rows"]) for row in executed)


async def _until_executed(desk: Any) -> None:
    for _ in range(500):
        if await desk.executed():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the stand-in never executed it")


@pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
async def test_a_refusal_to_the_second_copy_of_a_taken_request_is_no_refusal(
    bench: Bench, open_desk: Any, order: Any
) -> None:
    """The first copy took most of the balance, and the second one's answer, which is all we see, says there is none."""
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    most = order(amount="60")
    prepared = await action.prepare(most)
    await desk.control.order(K.DUPLICATE_REQUEST, venue="venue_a", answered="second")
    submitted = await action.submit(most, prepared)
    (made,) = await desk.executed()
    if submitted.status is ResultStatus.ACCEPTED:  # the copy was answered with the first one
        assert bench.venue.repeats is Repeats.IDEMPOTENT
        assert submitted.provider_refs["exchange_withdrawal_id"] == made["id"]
    else:
        assert submitted.status is ResultStatus.UNKNOWN, submitted
    recovered = await action.recover(order({"prepared": prepared, "node_refs": submitted.provider_refs}, amount="60"))
    assert bench.accounts_for(recovered, made), recovered


LOOKS: dict[str, dict[str, Any]] = {
    "late": {"kind": K.DELAY_SECONDS, "seconds": 0.8},
    "html": {"kind": K.OK_HTML_200},
    "empty": {"kind": K.EMPTY_200},
    "cut": {"kind": K.TRUNCATED_BODY},
    "redirected": {"kind": K.REDIRECT_307},
    "another's": {"kind": K.REPLY, "body": '{"rows": []}'},
    "500": {"kind": K.EXECUTE_THEN_500},
}


@pytest.mark.parametrize("how", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
async def test_a_look_that_brings_nothing_says_nothing(
    bench: Bench, how: dict[str, Any], open_desk: Any, order: Any
) -> None:
    desk = await open_desk(bench, patience=0.5)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(K.LOSE_REPLY_AFTER_EXECUTION, venue="venue_a")
    await action.submit(order(), prepared)
    await desk.control.order(venue="venue_a", endpoint=WITHDRAWAL_HISTORY, **how)

    failed = await action.recover(order({"prepared": prepared}))
    found = await action.recover(order({"prepared": prepared}))

    assert (failed.status, failed.error_code) == (ResultStatus.UNKNOWN, "LOOKUP_FAILED")
    assert bench.accounts_for(found, *await desk.executed()), found


@pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
async def test_a_listed_refusal_is_a_refusal(bench: Bench, open_desk: Any, order: Any) -> None:
    """Every code at one stand-in, each for a withdrawal of its own: none leaves anything behind."""
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    rules = bench.venue.submit_rules
    codes = sorted(rules.refusals - rules.confirm_first)
    assert codes
    for number, code in enumerate(codes, 1):
        context = order({"idempotency_key": f"refused:{code}"})
        prepared = await action.prepare(context)
        body = json.dumps(bench.refusal(code))
        await desk.control.order(K.REPLY, venue="venue_a", status=bench.refusal_status, body=body)
        submitted = await action.submit(context, prepared)
        assert (submitted.status, submitted.error_code) == (ResultStatus.REJECTED, code)
        assert await desk.posts() == number, code
    assert await desk.executed() == []
