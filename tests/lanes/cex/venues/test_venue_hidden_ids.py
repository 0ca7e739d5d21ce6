"""Rows that should show our id, and hide it: found by the id that was answered, and else a person's, never absent."""

from __future__ import annotations

from typing import Any

import pytest

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.lanes.cex.venue import Identity
from qtg_dagster.sandbox.exchange.control import WITHDRAWAL_HISTORY
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.lanes.cex.venues.bench import Bench, benches

#: What a row of such a venue looks like when it hides our id.
HIDDEN: dict[str, dict[str, Any]] = {"kucoin": {"remark": ""}, "coinbase": {"idem": None}}
#: What a row looks like that goes somewhere else.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "kucoin": {"address": "0x" + "ee" * 20},
    "coinbase": {"to": {"resource": "address", "address": "0x" + "ee" * 20}},
}
ON_ROWS = pytest.mark.parametrize(
    "bench",
    [bench for bench in benches() if bench.venue.identity is Identity.ON_ROWS],
    ids=lambda bench: bench.wire,
)
UNSEEN = FaultKind.LOSE_REPLY_AFTER_EXECUTION


async def lost(desk: Any, context: Any) -> Any:
    """A withdrawal that was executed, and whose answer was lost."""
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(context)
    await desk.control.order(UNSEEN, venue="venue_a")
    await action.submit(context, prepared)
    return prepared


async def hide(desk: Any, bench: Bench, **beside: Any) -> None:
    for row in await desk.executed():
        await desk.control.show_instead("venue_a", row["id"], **HIDDEN[bench.wire], **beside)


@ON_ROWS
async def test_a_lost_one_that_hides_our_id_is_a_persons_and_never_absent(
    bench: Bench, open_desk: Any, order: Any, clock: Any
) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await lost(desk, order())
    await hide(desk, bench)
    (made,) = await desk.executed()
    refs: dict[str, Any] = {}
    for pause in (0, 130, 300, 301, 86_400):
        clock.advance(pause)
        looked = await action.recover(order({"prepared": prepared, "node_refs": refs}))
        refs |= looked.provider_refs
        assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "UNNAMED_ON_RECORD")
        assert made["id"] in looked.evidence["operator"]
        assert "exchange_withdrawal_id" not in refs
    adopted = await action.adopt(order({"prepared": prepared}), made["id"])
    assert adopted.status is ResultStatus.ACCEPTED, adopted
    assert await desk.posts() == 1


@ON_ROWS
async def test_an_accepted_one_that_hides_our_id_is_found_by_the_answered_one(
    bench: Bench, open_desk: Any, order: Any
) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    accepted = await action.submit(order(), prepared)
    made = accepted.provider_refs["exchange_withdrawal_id"]
    context = order({"prepared": prepared, "node_refs": accepted.provider_refs})
    await hide(desk, bench)
    for seen in (await action.observe(context), await action.recover(context)):
        assert (seen.status, seen.provider_refs.get("exchange_withdrawal_id")) == (ResultStatus.COMPLETED, made)
    await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, made, "failure")
    assert (await action.observe(context)).status is ResultStatus.FAILED


@ON_ROWS
async def test_the_answer_to_another_request_is_not_believed_against_a_row_with_our_id(
    bench: Bench, open_desk: Any, order: Any
) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    other = order({"idempotency_key": "of-others"})
    await action.submit(other, await action.prepare(other))
    prepared = await action.prepare(order())
    await desk.control.order(FaultKind.EARLIER_REPLY, venue="venue_a")
    accepted = await action.submit(order(), prepared)
    ours = next(
        row for row in await desk.executed() if row["order_id"] == prepared.provider_refs["withdrawal_client_id"]
    )
    assert accepted.provider_refs["exchange_withdrawal_id"] != ours["id"]
    context = order({"prepared": prepared, "node_refs": accepted.provider_refs})
    seen = await action.recover(context)
    assert (seen.status, seen.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, ours["id"])
    await hide(desk, bench)  # what was answered is then all there is, and it was there before
    hidden = await action.recover(context)
    assert (hidden.status, hidden.error_code) == (ResultStatus.UNKNOWN, "OTHER_ON_RECORD")


@ON_ROWS
async def test_a_hidden_row_that_cannot_be_ours_is_no_doubt_and_no_proof(
    bench: Bench, open_desk: Any, order: Any
) -> None:
    desk = await open_desk(bench)
    prepared = await lost(desk, order())
    await hide(desk, bench, **ELSEWHERE[bench.wire])
    looked = await desk.executor("withdrawal_action").recover(order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD_YET")


@ON_ROWS
async def test_a_row_with_our_id_and_other_terms_is_a_persons(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    prepared = await lost(desk, order())
    (made,) = await desk.executed()
    await desk.control.show_instead("venue_a", made["id"], **ELSEWHERE[bench.wire])
    looked = await desk.executor("withdrawal_action").recover(order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "OTHER_ON_RECORD")


async def test_a_row_without_the_venues_own_id_is_found_and_followed_too(open_desk: Any, order: Any) -> None:
    """As KuCoin's documents show payments that stay inside the venue."""
    (bench,) = [bench for bench in benches() if bench.wire == "kucoin"]
    desk = await open_desk(bench)
    prepared = await lost(desk, order())
    (made,) = await desk.executed()
    inside = {"id": None, "isInner": True, "walletTxId": None}
    await desk.control.show_instead("venue_a", made["id"], **inside)
    found = await desk.executor("withdrawal_action").recover(order({"prepared": prepared}))
    assert found.status is ResultStatus.COMPLETED, found
    refs = found.provider_refs
    ids = {"withdrawal_id": refs["exchange_withdrawal_id"], "client_id": refs["withdrawal_client_id"]}
    following = order(amount=None, destination=None, **ids)
    observe = desk.executor("withdrawal_observe").observe
    assert (await observe(following)).status is ResultStatus.OBSERVING
    await desk.control.show_instead("venue_a", made["id"], **inside, status="FAILURE")
    assert (await observe(following)).error_code == "HELD_AT_VENUE"  # nothing says that the funds are back
    await desk.control.show_instead("venue_a", made["id"], **inside, status="SUCCESS")
    done = await observe(following)
    assert (done.status, done.provider_refs["internal_transfer"]) == (ResultStatus.COMPLETED, ids["withdrawal_id"])


async def test_a_lost_one_that_failed_is_failed_once_its_id_says_that_funds_are_back(
    open_desk: Any, order: Any
) -> None:
    (bench,) = [bench for bench in benches() if bench.wire == "kucoin"]
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await lost(desk, order())
    (made,) = await desk.executed()
    await desk.control.reject("venue_a", made["id"], status=5)
    await desk.control.show_instead("venue_a", made["id"], returnStatus="NOT_RETURN")
    held = await action.recover(order({"prepared": prepared}))
    assert held.status is ResultStatus.COMPLETED  # on record, and for whoever follows it to say how it ends
    await desk.control.show_instead("venue_a", made["id"])
    failed = await action.recover(order({"prepared": prepared}))
    assert (failed.status, failed.error_code) == (ResultStatus.FAILED, "WITHDRAWAL_FAILED")


async def test_a_copy_that_hides_our_id_as_ours_does_is_a_persons(open_desk: Any, order: Any, clock: Any) -> None:
    (bench,) = [bench for bench in benches() if bench.wire == "kucoin"]
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(FaultKind.DUPLICATE_REQUEST, venue="venue_a", answered="first")
    accepted = await action.submit(order(), prepared)
    await hide(desk, bench)
    both = [row["id"] for row in await desk.executed()]
    assert len(both) == 2
    seen = await action.observe(order({"prepared": prepared, "node_refs": accepted.provider_refs}))
    assert (seen.status, seen.error_code) == (ResultStatus.UNKNOWN, "SEVERAL_ON_RECORD")
    clock.advance(600)
    for one in both:  # and neither can be adopted while the other may be what became of the request
        refused = await action.adopt(order({"prepared": prepared}), one)
        assert (refused.status, refused.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")
        assert "looks the same" in refused.error_message
