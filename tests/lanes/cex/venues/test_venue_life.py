"""A withdrawal from preflight to the record, at every venue the stand-in speaks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from qtg_dagster.domain.contract import ADOPTED_REF, HealthState, ResultStatus
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import FeeRule
from qtg_dagster.sandbox.exchange.control import WITHDRAWAL_HISTORY
from qtg_dagster.sandbox.exchange.dialects.kraken.signing import Nonces as KrakenNonces
from qtg_dagster.sandbox.exchange.faults import FaultKind
from tests.lanes.cex.venues.bench import DESTINATION, Bench, Lost, benches

EVERYWHERE = pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
UNNAMED = pytest.mark.parametrize(
    "bench", [bench for bench in benches() if not bench.venue.identity.is_shown], ids=lambda bench: bench.wire
)
LOST = FaultKind.LOSE_REPLY_BEFORE_EXECUTION
UNSEEN = FaultKind.LOSE_REPLY_AFTER_EXECUTION


async def submit(desk: Any, context: Any) -> Any:
    action = desk.executor("withdrawal_action")
    return await action.submit(context, await action.prepare(context))


def following(order: Any, refs: Any) -> Any:
    ids = {"withdrawal_id": refs["exchange_withdrawal_id"], "client_id": refs["withdrawal_client_id"]}
    return order(amount=None, destination=None, **ids)


@EVERYWHERE
async def test_a_sound_withdrawal_is_accepted_and_on_record(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    assert await action.preflight(order()) is None
    prepared = await action.prepare(order())
    accepted = await action.submit(order(), prepared)
    assert accepted.status is ResultStatus.ACCEPTED
    (made,) = await desk.executed()
    assert (made["address"], made["id"]) == (DESTINATION, accepted.provider_refs["exchange_withdrawal_id"])
    seen = await action.observe(order({"prepared": prepared, "node_refs": accepted.provider_refs}))
    assert (seen.status, seen.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, made["id"])
    seen = await action.observe(order({"prepared": prepared}))  # what was answered need not have been written down
    assert bench.accounts_for(seen, made), seen


@EVERYWHERE
async def test_health_and_balances(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    assert (await desk.executor("withdrawal_action").health()).health_state is HealthState.HEALTHY
    await submit(desk, order())
    (fetcher,) = desk.lane.balance_fetchers
    reading, *others = await fetcher.fetch()
    books = (await desk.control.balances())["venue_a"]["ETH"]
    assert (reading.wallet, reading.free) == (fetcher.paying_wallet, books["free"])
    assert reading.locked == (books["withdrawing"] if bench.tells_withdrawing else "0")
    assert books["withdrawing"] != "0"
    unread = {told.partition(":")[0] for told in reading.missing}  # the stand-in has not every wallet of every venue
    assert {other.wallet for other in others} | unread == set(bench.venue.other_wallets())
    for each in (reading, *others):
        assert each.complete == (not unread)
        assert each.source_time is not None
        assert abs(each.source_time - each.request_ended_at) < timedelta(seconds=5)
    assert {(other.free, other.locked) for other in others} <= {("0", "0")}  # nothing is in any other wallet


@EVERYWHERE
@pytest.mark.parametrize(
    ("status", "means", "code"),
    [
        ("email_sent", ResultStatus.OBSERVING, None),
        ("awaiting_approval", ResultStatus.OBSERVING, None),
        ("processing", ResultStatus.OBSERVING, None),
        ("completed", ResultStatus.OBSERVING, "NO_TRANSACTION"),
        ("rejected", ResultStatus.FAILED, "WITHDRAWAL_FAILED"),
        ("failure", ResultStatus.FAILED, "WITHDRAWAL_FAILED"),
        ("cancelled", ResultStatus.FAILED, "WITHDRAWAL_CANCELLED"),
    ],
)
async def test_what_the_venues_words_mean(
    bench: Bench, status: str, means: ResultStatus, code: str | None, open_desk: Any, order: Any
) -> None:
    if means is ResultStatus.FAILED and bench.undone is not None:
        code = f"WITHDRAWAL_{bench.undone}"
    desk = await open_desk(bench)
    accepted = await submit(desk, order())
    refs = accepted.provider_refs
    await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, refs["exchange_withdrawal_id"], status)
    seen = await desk.executor("withdrawal_observe").observe(following(order, refs))
    assert (seen.status, seen.error_code) == (means, code)


@EVERYWHERE
@pytest.mark.parametrize("amount", ["0.000001", "1.500001", "100.5"])
async def test_amounts_off_the_rules_are_refused(bench: Bench, amount: str, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    answer = await desk.executor("withdrawal_action").preflight(order(amount=amount))
    if amount == "1.500001" and bench.wire == "kraken":  # a coin's decimals are all that it tells of steps
        assert answer is None
        return
    assert answer.status is ResultStatus.REJECTED
    assert answer.evidence["field"] == "config.amount"


@EVERYWHERE
async def test_the_fee_is_paid_from_where_the_venue_takes_it(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    answer = await action.preflight(order(amount="100"))
    await submit(desk, order())
    (made,) = await desk.executed()  # the venue's own book says what was taken and what arrives
    on_top = (made["net"], made["fee"]) == ("1.5", "0.001")
    assert on_top or made["net"] == "1.499"
    if not bench.tells_fee:
        with pytest.raises(LookupFailed, match="FEE_NOT_TOLD"):
            await action.estimate_fee(order())
        capped = await action.preflight(order(max_fee="0.1"))
        assert (capped.status, capped.evidence["field"]) == (ResultStatus.REJECTED, "config.max_fee")
        return
    estimate = await action.estimate_fee(order())
    if on_top or bench.venue.fee_rule is FeeRule.EITHER:  # where nobody documents it, the fee must be there as well
        assert (estimate.amount, estimate.on_top) == ("0.001", True)
        assert answer.status is ResultStatus.REJECTED
        assert "100.001 is needed" in answer.error_message
    else:
        assert answer is None
        assert not estimate.on_top


@EVERYWHERE
async def test_our_address_at_a_venue_is_asked_for_again(bench: Bench, open_desk: Any, order: Any) -> None:
    """The venue names another address than the inventory does: it was rotated, or somebody changed the inventory."""
    desk = await open_desk(bench, deposit_addresses={"eip155:31337": DESTINATION})
    answer = await desk.executor("withdrawal_action").preflight(order())
    if bench.venue.deposit_address("ETH", bench.network) is None:
        assert answer is None
        return
    assert answer.status is ResultStatus.REJECTED
    assert "does not name" in answer.error_message


@EVERYWHERE
async def test_rows_of_others_are_never_ours(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(LOST, venue="venue_a")
    await action.submit(order(), prepared)
    await desk.control.add_rows("venue_a", WITHDRAWAL_HISTORY, 30, coin="ETH", spacing_ms=500)
    looked = await action.recover(order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD_YET")


@EVERYWHERE
async def test_other_softwares_withdrawal_is_adopted(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    made = (await submit(desk, order({"idempotency_key": "of-others"}))).provider_refs["exchange_withdrawal_id"]
    adopted = await action.adopt(order(), made)
    assert adopted.status is ResultStatus.ACCEPTED, adopted
    refs = {**adopted.provider_refs, ADOPTED_REF: made}
    assert (await action.observe(order({"node_refs": refs}))).status is ResultStatus.COMPLETED
    lost = order({"prepared": await action.prepare(order())})
    refused = await action.adopt(lost, made)
    assert (refused.status, refused.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")


@UNNAMED
async def test_what_was_there_before_is_not_ours_however_alike(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    await submit(desk, order({"idempotency_key": "of-others"}))
    prepared = await action.prepare(order())
    await desk.control.order(LOST, venue="venue_a")
    await action.submit(order(), prepared)
    looked = await action.recover(order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD_YET")


@UNNAMED
async def test_two_that_look_alike_are_for_a_person(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    other = order({"idempotency_key": "of-others"})
    other_prepared = await action.prepare(other)
    await desk.control.order(UNSEEN, venue="venue_a")
    await action.submit(order(), prepared)
    await action.submit(other, other_prepared)
    looked = await action.recover(order({"prepared": prepared}))
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "SEVERAL_ON_RECORD")
    assert len(looked.evidence["rows"]) == 2
    for said in ("1.5 ETH", DESTINATION, "venue_a", bench.wire):
        assert said in looked.evidence["operator"]


@UNNAMED
async def test_a_fit_that_was_given_back_is_a_failure_only_under_the_answered_id(
    bench: Bench, open_desk: Any, order: Any
) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    accepted = await action.submit(order(), prepared)
    made = accepted.provider_refs["exchange_withdrawal_id"]
    await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, made, "failure")
    guessed = await action.recover(order({"prepared": prepared}))
    doubt = "UNDONE_ON_RECORD" if bench.lost is Lost.FOUND else "UNPROVEN_ON_RECORD"
    assert (guessed.status, guessed.error_code) == (ResultStatus.UNKNOWN, doubt)
    known = await action.recover(order({"prepared": prepared, "node_refs": accepted.provider_refs}))
    assert known.status is ResultStatus.FAILED


@UNNAMED
async def test_another_attempts_answer_is_not_this_ones(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    first = await submit(desk, order())
    second = order({"idempotency_key": "n1:2"})
    prepared = await action.prepare(second)
    await desk.control.order(LOST, venue="venue_a")
    await action.submit(second, prepared)
    context = order({"idempotency_key": "n1:2", "prepared": prepared, "node_refs": first.provider_refs})
    looked = await action.recover(context)
    assert (looked.status, looked.error_code) == (ResultStatus.UNKNOWN, "NOT_ON_RECORD_YET")


@UNNAMED
async def test_the_id_of_an_older_withdrawal_is_no_answer(bench: Bench, open_desk: Any, order: Any) -> None:
    """Something on the way answers with what it answered before: the id is real, and of another withdrawal."""
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    await submit(desk, order({"idempotency_key": "of-others"}))
    prepared = await action.prepare(order())
    await desk.control.order(FaultKind.EARLIER_REPLY, venue="venue_a")
    accepted = await action.submit(order(), prepared)
    seen = await action.observe(order({"prepared": prepared, "node_refs": accepted.provider_refs}))
    assert (seen.status, seen.error_code) == (ResultStatus.UNKNOWN, "OTHER_ON_RECORD")


@pytest.mark.parametrize(
    "bench", [bench for bench in benches() if bench.venue.takes_copies], ids=lambda bench: bench.wire
)
async def test_a_copy_that_was_taken_keeps_ours_from_any_end(
    bench: Bench, open_desk: Any, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours was given back, and the copy was not: whoever heard of a failure would send the money again."""
    monkeypatch.setattr(KrakenNonces, "use", lambda *_: True)  # as within the window of a key
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(FaultKind.DUPLICATE_REQUEST, venue="venue_a", answered="first")
    accepted = await action.submit(order(), prepared)
    context = order({"prepared": prepared, "node_refs": accepted.provider_refs})
    for shown in ("completed", "failure", None):
        made = accepted.provider_refs["exchange_withdrawal_id"]
        await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, made, shown)
        for answer in (await action.observe(context), await action.recover(context)):
            assert (answer.status, answer.error_code) == (ResultStatus.UNKNOWN, "SEVERAL_ON_RECORD")
            assert all(row["id"] in answer.evidence["operator"] for row in await desk.executed())


@UNNAMED
async def test_absence_is_never_failure_there(bench: Bench, open_desk: Any, order: Any, clock: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(LOST, venue="venue_a")
    await action.submit(order(), prepared)
    refs: dict[str, Any] = {}
    for pause in (130, 300, 301, 86_400):
        clock.advance(pause)
        looked = await action.recover(order({"prepared": prepared, "node_refs": refs}))
        refs |= looked.provider_refs
        assert looked.status is ResultStatus.UNKNOWN
    assert looked.error_code == "NOT_ON_RECORD"
    assert "Look at the withdrawals" in looked.evidence["operator"]
    assert "adopt it" in looked.error_message


@pytest.mark.parametrize(
    "bench", [bench for bench in benches() if bench.lost is Lost.HANDED_OVER], ids=lambda bench: bench.wire
)
async def test_what_was_handed_over_is_adopted_by_its_id(bench: Bench, open_desk: Any, order: Any, clock: Any) -> None:
    """Once no request of ours can be on its way any more, and while nothing else looks alike."""
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    await desk.control.order(UNSEEN, venue="venue_a")
    await action.submit(order(), prepared)
    (made,) = await desk.executed()
    early = await action.adopt(order({"prepared": prepared}), made["id"])
    assert (early.status, early.error_code) == (ResultStatus.REJECTED, "OWN_ATTEMPT_OPEN")
    nobodys = await action.adopt(order({"prepared": prepared}), "123456789")
    assert (nobodys.status, nobodys.error_code) == (ResultStatus.REJECTED, "NOT_ONE_ON_RECORD")
    clock.advance(2 * 3600)
    adopted = await action.adopt(order({"prepared": prepared}), made["id"])
    assert adopted.status is ResultStatus.ACCEPTED, adopted
    assert "on the word" in adopted.evidence["destination"]
    refs = {**adopted.provider_refs, ADOPTED_REF: made["id"]}
    seen = await action.observe(order({"prepared": prepared, "node_refs": refs}))
    assert (seen.status, seen.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, made["id"])


@pytest.mark.parametrize(
    "bench", [bench for bench in benches() if bench.venue.saved_addresses_only], ids=lambda bench: bench.wire
)
@pytest.mark.parametrize(
    ("destination", "says"), [("0x" + "ee" * 20, "not in the address book"), ("0x" + "cc" * 20, "not confirmed")]
)
async def test_a_destination_that_is_not_saved_is_refused(
    bench: Bench, destination: str, says: str, open_desk: Any, order: Any
) -> None:
    desk = await open_desk(bench)
    limits = {"risk_controls": {"destination_allowlist": [destination]}}
    answer = await desk.executor("withdrawal_action").preflight(order(limits, destination=destination))
    assert answer.status is ResultStatus.REJECTED
    assert (says if bench.lists_unproven else "not in the address book") in answer.error_message


@EVERYWHERE
async def test_one_in_flight_where_rows_carry_no_id(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action = desk.executor("withdrawal_action")
    key = getattr(action, "serialization_key", lambda _: None)
    if bench.venue.identity.is_shown:
        assert key(order().node_config) is None
        return
    assert key(order().node_config) == key(order(amount="2").node_config) == "cex:venue_a:ETH"
    assert key({"venue": {"$ref": "x"}}) is not None
