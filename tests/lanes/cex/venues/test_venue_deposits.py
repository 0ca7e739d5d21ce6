"""A transaction of ours on a venue's record of deposits, at every venue the stand-in speaks. Waiting never fails."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.sandbox.exchange.control import DEPOSIT_HISTORY, WITHDRAWAL_HISTORY
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.lanes.cex.venues.bench import Bench, benches
from tests.lanes.cex.venues.book_changes import arrived, in_one_transaction, pay_out

EVERYWHERE = pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
OBSERVING, COMPLETED, UNKNOWN = ResultStatus.OBSERVING, ResultStatus.COMPLETED, ResultStatus.UNKNOWN
HASH = "0x" + "ab" * 32
#: Statuses of what cannot be used yet -> what may be said of it.
_UNDER_WAY: dict[str, set[str | None]] = {
    "pending": {None},
    "awaiting_user": {None, "HELD_AT_VENUE"},
    "credited_locked": {None},
}


@pytest.fixture
def watch(order: Any) -> Any:
    """One look at the deposits of a transaction; `amount` is what arrives in all."""

    async def look(desk: Any, row: dict[str, Any], how: str = "observe", **config: Any) -> Any:
        terms = {"amount": None, "destination": None, "tx_hash": row["tx_hash"], "address": row["address"], **config}
        context = order({"action_type": "cex_deposit_status"}, **terms)
        return await getattr(desk.executor("deposit_observe"), how)(context)

    return look


async def show(desk: Any, row: dict[str, Any], status: str) -> None:
    await desk.control.show_status("venue_a", DEPOSIT_HISTORY, row["id"], status)


@EVERYWHERE
async def test_a_deposit_is_followed_until_it_can_be_used(bench: Bench, open_desk: Any, watch: Any) -> None:
    desk = await open_desk(bench)
    ours, *others = await arrived(desk, "pending", 3)
    for row in others:
        await show(desk, row, "success")
    assert (await watch(desk, ours, tx_hash=HASH)).status is OBSERVING  # the venue has not seen it
    for status, codes in _UNDER_WAY.items():
        await show(desk, ours, status)
        for how, expected in (("observe", OBSERVING), ("recover", ResultStatus.ACCEPTED)):
            seen = await watch(desk, ours, how)
            assert seen.status is expected, (status, seen)
            assert seen.error_code in codes, (status, seen)
    await show(desk, ours, "success")
    seen = await watch(desk, ours)
    assert seen.status is COMPLETED, seen
    found = ours["id"] if bench.deposits_have_ids else (await watch(desk, ours)).provider_refs["deposit_id"]
    assert seen.provider_refs == {"deposit_id": found, "credited_amount": plain_decimal(Decimal(ours["amount"]))}
    elsewhere = await watch(desk, ours, address="0x" + "ce" * 20)
    assert elsewhere.status is (OBSERVING if bench.venue.deposits_show_destination else COMPLETED)


@EVERYWHERE
async def test_what_is_lost_or_held_is_told(bench: Bench, open_desk: Any, watch: Any) -> None:
    desk = await open_desk(bench)
    (ours,) = await arrived(desk, bench.lost_deposit or "rejected")
    seen = await watch(desk, ours)
    if bench.lost_deposit is None:
        assert (seen.status, seen.error_code) == (OBSERVING, "HELD_AT_VENUE")
    else:
        assert (seen.status, seen.error_code) == (ResultStatus.FAILED, "DEPOSIT_REFUSED")


@EVERYWHERE
async def test_the_rows_of_one_transaction_add_up(bench: Bench, open_desk: Any, watch: Any) -> None:
    desk = await open_desk(bench)
    rows = await arrived(desk, "success", 3)
    in_one_transaction(desk.exchange, rows, HASH)
    total = sum(Decimal(row["amount"]) for row in rows)

    def expecting(amount: Decimal | None) -> Any:
        return watch(desk, rows[0], tx_hash=HASH, amount=None if amount is None else plain_decimal(amount))

    await show(desk, rows[1], "credited_locked")
    assert (await expecting(total)).status is OBSERVING
    await show(desk, rows[1], "success")
    seen = await expecting(total)
    assert (seen.status, Decimal(seen.provider_refs["credited_amount"])) == (COMPLETED, total)
    found = set(seen.provider_refs["deposit_id"].split(","))
    assert found == {row["id"] for row in rows} if bench.deposits_have_ids else len(found) == len(rows)
    for amount, status, code in (
        (total * 2, OBSERVING, "PARTLY_CREDITED"),
        (total / 3, UNKNOWN, "OTHER_AMOUNT"),
        (None, UNKNOWN, "SEVERAL_ON_RECORD"),
    ):
        seen = await expecting(amount)
        assert (seen.status, seen.error_code) == (status, code)


@EVERYWHERE
async def test_a_replaced_transaction_is_followed_to_where_it_arrives(
    bench: Bench, open_desk: Any, order: Any, watch: Any
) -> None:
    """The sender paid a higher fee, so another transaction than was shown at first arrives: only that one counts."""
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    refs = (await action.submit(order(), await action.prepare(order()))).provider_refs
    made = refs["exchange_withdrawal_id"]
    ids = {"withdrawal_id": made, "client_id": refs["withdrawal_client_id"]}
    following = order(amount=None, destination=None, **ids)
    first = pay_out(desk.exchange, made)
    await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, made, "processing")
    under_way = await desk.executor("withdrawal_observe").observe(following)
    assert (under_way.status, under_way.provider_refs) == (OBSERVING, {})
    second = pay_out(desk.exchange, made)
    await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, made, "completed")
    done = await desk.executor("withdrawal_observe").observe(following)
    assert (done.status, done.provider_refs["tx_hash"]) == (COMPLETED, second)
    (row,) = await arrived(desk, "success")
    in_one_transaction(desk.exchange, [row], second)
    assert (await watch(desk, row, tx_hash=first)).status is OBSERVING
    assert (await watch(desk, row, tx_hash=done.provider_refs["tx_hash"])).status is COMPLETED


_NO_LOOK: tuple[tuple[FaultKind, dict[str, Any]], ...] = (
    (FaultKind.LOSE_REPLY_BEFORE_EXECUTION, {"times": 2}),  # a read is sent again by the HTTP client itself
    (FaultKind.DELAY_SECONDS, {"seconds": 0.6}),
    (FaultKind.OK_HTML_200, {}),
    (FaultKind.HTTP_524_HTML, {}),
    (FaultKind.TRUNCATED_BODY, {}),
)


@EVERYWHERE
async def test_neither_waiting_nor_a_venue_that_is_away_is_a_failure(
    bench: Bench, open_desk: Any, clock: Any, watch: Any
) -> None:
    desk = await open_desk(bench, patience=0.5)
    (ours,) = await arrived(desk, "pending")
    for kind, details in _NO_LOOK:
        looks = (("observe", OBSERVING), ("recover", UNKNOWN))
        for how, expected in looks[: 1 if kind is FaultKind.DELAY_SECONDS else 2]:  # each late answer takes its time
            await desk.control.order(kind, venue="venue_a", endpoint=DEPOSIT_HISTORY, **details)
            seen = await watch(desk, ours, how)
            assert (seen.status, seen.error_code) == (expected, "LOOKUP_FAILED"), kind
            await desk.control.clear_faults()
    for days in (1, 5):
        clock.advance(days * 86_400)
        assert (await watch(desk, ours)).status is OBSERVING
        assert (await watch(desk, ours, tx_hash=HASH)).status is OBSERVING
    await show(desk, ours, "success")
    assert (await watch(desk, ours)).status is COMPLETED
