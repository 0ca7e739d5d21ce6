"""Every fault on every dialect: whether the venue executed, whatever its client got to see of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import ccxt.async_support as ccxt
import pytest

from qtg_dagster.sandbox.exchange.control import ControlRefused
from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.faults import Fault, FaultKind, FaultQueue
from qtg_dagster.sandbox.exchange.venue import Rollback
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus
from tests.sandbox.exchange.dialects.driver import Driver, Order

K = FaultKind
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]

# Kind, details, whether the client gets the id of its withdrawal, whether it was executed.
SUBMITS: list[tuple[FaultKind, dict[str, Any], bool, bool]] = [
    (K.LOSE_REPLY_AFTER_EXECUTION, {}, False, True),
    (K.LOSE_REPLY_BEFORE_EXECUTION, {}, False, False),
    (K.EXECUTE_THEN_500, {}, False, True),
    (K.EXECUTE_THEN_500, {"executes": False}, False, False),
    (K.HTTP_524_HTML, {}, False, True),
    (K.HTTP_524_HTML, {"executes": False}, False, False),
    (K.OK_HTML_200, {}, False, True),
    (K.EMPTY_200, {}, False, True),
    (K.TRUNCATED_BODY, {}, False, True),
    (K.BAD_GZIP, {}, False, True),
    (K.DELAY_SECONDS, {"seconds": 0.05}, True, True),
    (K.DELAY_EXECUTION, {"seconds": 0.05}, True, True),
    (K.REPLY, {"status": 502, "body": "<html>", "content_type": "text/html", "executes": True}, False, True),
    (K.REPLY, {"status": 522, "body": "", "executes": True}, False, True),
    (K.REPLY, {"status": 204}, False, False),
]
ELSEWHERE = {
    K.LATE_EXECUTION,
    K.REDIRECT_307,
    K.DUPLICATE_REQUEST,
    K.EARLIER_REPLY,
    K.STATUS_ROLLBACK,
    K.PAGING_SHIFT,
}


def test_no_fault_is_left_out() -> None:
    assert {kind for kind, *_ in SUBMITS} | ELSEWHERE == set(FaultKind)


async def submitted(driver: Driver, client: Any, order: Order | None = None) -> str | None:
    """The id that a caller of ccxt gets to see, None when it sees none or an exception."""
    try:
        return driver.submitted_id(await driver.submit(client, order or Order()))
    except ccxt.BaseError:
        return None


@pytest.mark.parametrize(("kind", "details", "seen", "executed"), SUBMITS)
async def test_a_fault_executes_as_told_and_hits_once(
    driver: Driver, venue: Any, kind: FaultKind, details: dict[str, Any], seen: bool, executed: bool
) -> None:
    client = venue.connect()
    await venue.control.order(kind, venue="venue_a", **details)
    assert (await submitted(driver, client) is not None) is seen
    assert len(await venue.executed()) == int(executed)
    (request,) = await venue.control.requests(endpoint="withdraw")
    assert (request["fault"], request["outcome"]) == (kind, "executed" if executed else "not executed")
    assert await submitted(driver, client, Order(client_id="leg2")) is not None
    assert await venue.control.faults() == []


async def test_a_late_execution_is_judged_on_arrival(driver: Driver, venue: Any, eventually: Eventually) -> None:
    client = venue.connect()
    await venue.control.order(K.LATE_EXECUTION, seconds=0.3)
    assert await submitted(driver, client) is None
    assert await venue.executed() == []
    assert len(await eventually(venue.executed)) == 1


async def test_a_client_that_follows_a_redirect_is_seen_twice(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.order(K.REDIRECT_307)
    assert await submitted(driver, client, Order(client_id="leg2")) is not None
    asked = await venue.control.requests(endpoint="withdraw")
    assert [(row["fault"], row["outcome"]) for row in asked] == [("redirect_307", "not executed"), (None, "executed")]


async def test_what_is_redirected_after_execution_meets_itself(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.order(K.REDIRECT_307, executes=True)
    await submitted(driver, client)
    outcomes = await venue.outcomes("withdraw")
    assert outcomes == ["executed", driver.copy_outcome]
    assert len(await venue.executed()) == (outcomes.count("executed") if driver.copies_add else 1)


@pytest.mark.parametrize("answered", ["first", "second"])
async def test_a_request_that_arrives_twice_is_treated_as_the_venue_treats_a_copy(
    driver: Driver, venue: Any, answered: str
) -> None:
    client = venue.connect()
    await venue.control.order(K.DUPLICATE_REQUEST, answered=answered)
    seen = await submitted(driver, client)
    (request,) = await venue.control.requests(endpoint="withdraw")
    assert (request["outcome"], request["copy_outcome"]) == ("executed", driver.copy_outcome)
    rows = [row["id"] for row in await venue.executed()][::-1]  # oldest first
    assert len(rows) == (2 if driver.copy_outcome == "executed" and driver.copies_add else 1)
    second = (rows[-1],) if driver.copy_outcome == "executed" else (None,)
    answers = [rows[0], *second]
    assert seen == answers[0 if answered == "first" else 1]


async def test_an_earlier_reply_tells_of_another_withdrawal(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    await venue.control.order(K.EARLIER_REPLY)
    first = await submitted(driver, client)
    assert len(await venue.control.faults()) == 1  # there was nothing to repeat yet
    second = await submitted(driver, client, Order(amount="2.5", client_id="leg2"))
    executed = [row["id"] for row in await venue.executed()]
    assert first == second == executed[-1]
    assert len(executed) == 2
    assert await submitted(driver, client, Order(client_id="leg3")) not in (first, None)


async def test_an_earlier_look_is_shown_again_and_executes_nothing(driver: Driver, venue: Any) -> None:
    client = venue.connect()
    assert await driver.withdrawals(client) == []
    key = await submitted(driver, client)
    await venue.control.order(K.EARLIER_REPLY, endpoint="withdrawals")
    assert await driver.withdrawals(client) == []
    assert [driver.read_withdrawal(row).key for row in await driver.withdrawals(client)] == [key]


def test_a_place_that_tells_of_both_histories_is_hit_by_either_name() -> None:
    queue, both = FaultQueue(), (Role.WITHDRAWALS, Role.DEPOSITS)
    for history in both:
        queue.add(Fault(kind=K.STATUS_ROLLBACK, endpoint=history))
    assert queue.take("v", "/x", (Role.WITHDRAW,)) is None
    assert [taken.endpoint for _ in both if (taken := queue.take("v", "/x", both)) is not None] == list(both)


async def test_a_rollback_of_one_history_leaves_the_other(driver: Driver, venue: Any) -> None:
    client, state = venue.connect(), venue.running.exchange.venues["venue_a"]
    await venue.control.add_rows("venue_a", "deposits", 1)
    with state.rolled_back(Rollback(Role.WITHDRAWALS, None, WithdrawalStatus.FAILURE)):
        (row,) = await driver.deposits(client)
    assert driver.read_deposit(row).status == driver.deposit_words["success"]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": K.PAGING_SHIFT, "endpoint": "withdraw"},
        {"kind": K.STATUS_ROLLBACK, "endpoint": "*"},
        {"kind": K.STATUS_ROLLBACK, "endpoint": "deposits", "to_status": "completed"},
    ],
)
async def test_a_fault_that_makes_no_sense_is_not_taken(fields: dict[str, Any], open_venue: Any) -> None:
    from tests.sandbox.exchange.dialects.drive_binance import DRIVER

    venue = await open_venue(DRIVER)
    with pytest.raises((ControlRefused, ValueError)):
        await venue.control.order(fields.pop("kind"), **fields)
    assert await venue.control.faults() == []
