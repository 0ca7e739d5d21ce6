"""What the adapters of the wires that Upbit began have in common: rows without destinations, terms, saved addresses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.fingerprint import Fit, Trace, fitting
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.upbit_like import UpbitLikeVenue
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.bithumb import VENUE as BITHUMB
from qtg_dagster.lanes.cex.venues.upbit import VENUE as UPBIT

VENUES: list[UpbitLikeVenue] = [UPBIT, BITHUMB]
EACH = pytest.mark.parametrize("venue", VENUES, ids=lambda venue: venue.ccxt_id)
NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(days=1), NOW)
ROW = {
    "type": "withdraw",
    "uuid": "u1",
    "currency": "ETH",
    "net_type": "ETH",
    "txid": None,
    "state": "PROCESSING",
    "created_at": "2026-03-29T10:30:00+09:00",
    "done_at": None,
    "amount": "10.0",
    "fee": "0.01",
    "transaction_type": "default",
}
DEPOSIT = {**ROW, "type": "deposit", "uuid": "d1"}
ORDER = Order("ETH", "ETH", "0x" + "ab" * 20, None, "10", "c1")


def reply(json: Any, status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, json=json)


def refusal(code: Any) -> dict[str, Any]:
    return {"error": {"name": code, "message": "refused"}}


@pytest.fixture
def in_another_zone() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/Los_Angeles"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@EACH
def test_a_row_in_common_terms(venue: UpbitLikeVenue) -> None:
    (row,) = venue.read_withdrawals([ROW])
    assert (row.withdrawal_id, row.client_id, row.coin, row.network) == ("u1", None, "ETH", "ETH")
    assert (row.address, row.memo, row.amount, row.fee) == (None, None, Decimal(10), Decimal("0.01"))
    assert venue.read_withdrawals(ROW) == (row,)  # as it is shown to whoever asks for its id


@EACH
@pytest.mark.usefixtures("in_another_zone")
def test_times_are_those_of_their_zone_whatever_clock_this_machine_has(venue: UpbitLikeVenue) -> None:
    (row,) = venue.read_withdrawals([ROW])
    assert row.applied_at == NOW
    (row,) = venue.read_withdrawals([{**ROW, "created_at": "2026-03-29T01:30:00Z"}])
    assert row.applied_at == NOW
    (deposit,) = venue.read_deposits([DEPOSIT])
    assert deposit.inserted_at == NOW


@EACH
@pytest.mark.parametrize(
    "told", ["2026-03-29T10:30:00", "29.03.2026", "now", "1774747800", "2026-03-29T10:30:00+0900x"]
)
def test_a_time_that_names_no_zone_is_none(venue: UpbitLikeVenue, told: str) -> None:
    with pytest.raises(LookupFailed):
        venue.read_withdrawals([{**ROW, "created_at": told}])


@EACH
def test_one_row_that_fits_is_a_persons_and_never_ours(venue: UpbitLikeVenue) -> None:
    (row,) = venue.read_withdrawals([ROW])
    trace = Trace(ORDER, NOW - timedelta(seconds=2), None, frozenset())
    assert fitting(trace, [row], venue) == (Fit.UNPROVEN, (row,))
    (undone,) = venue.read_withdrawals([{**ROW, "state": "CANCELLED"}])
    assert fitting(trace, [undone], venue)[0] is Fit.UNPROVEN
    (other,) = venue.read_withdrawals([{**ROW, "uuid": "u2"}])
    assert fitting(trace, [row, other], venue)[0] is Fit.SEVERAL


@EACH
@pytest.mark.parametrize(
    "change",
    [
        {"currency": "USDC"},
        {"net_type": "ARB"},
        {"amount": "9.99", "fee": "0.005"},
        {"created_at": "2026-03-29T10:29:00+09:00"},
    ],
)
def test_a_row_that_shows_something_else_is_not_it(venue: UpbitLikeVenue, change: dict[str, str]) -> None:
    (row,) = venue.read_withdrawals([{**ROW, **change}])
    assert fitting(Trace(ORDER, NOW, None, frozenset()), [row], venue)[0] is Fit.ABSENT


@EACH
@pytest.mark.parametrize("state", ["cancelled", "CANCELLED", "CANCELED"])
def test_cancelled_is_cancelled_however_it_is_spelt(venue: UpbitLikeVenue, state: str) -> None:
    (row,) = venue.read_withdrawals([{**ROW, "state": state}])
    assert (row.state, row.status_listed) == (RowState.CANCELLED, True)


@given(st.sampled_from(VENUES), st.text(max_size=12))
def test_what_nobody_knows_is_pending_and_marked(venue: UpbitLikeVenue, state: str) -> None:
    (row,) = venue.read_withdrawals([{**ROW, "state": state}])
    if state.upper() not in venue.withdrawal_states:
        assert (row.state, row.status_listed) == (RowState.PENDING, False)
    (deposit,) = venue.read_deposits([{**DEPOSIT, "state": state}])
    if state.upper() not in venue.deposit_states:
        assert (deposit.state, deposit.status_listed) == (RowState.PENDING, False)


@EACH
@pytest.mark.parametrize("asked", [{"error": {"name": "x"}}, None, "x", [1], [{}], [{**ROW, "uuid": ""}], [DEPOSIT]])
def test_what_is_no_whole_answer_is_none(venue: UpbitLikeVenue, asked: Any) -> None:
    with pytest.raises(LookupFailed):
        venue.read_withdrawals(asked)


@EACH
@pytest.mark.parametrize("amount", ["1e-7x", "-1", "NaN", "Infinity", ""])
def test_what_is_no_amount_is_none(venue: UpbitLikeVenue, amount: str) -> None:
    with pytest.raises(LookupFailed):
        venue.read_withdrawals([{**ROW, "amount": amount}])


@EACH
def test_a_page_takes_no_bounds_and_the_next_is_counted(venue: UpbitLikeVenue) -> None:
    call = venue.withdrawals("ETH", WINDOW, None)
    assert dict(call.params) == {"currency": "ETH", "limit": "100", "page": "1", "order_by": "desc"}
    assert dict(venue.deposits(None, WINDOW, "3").params) == {"limit": "100", "page": "3", "order_by": "desc"}
    full = [ROW] * 100
    assert venue.withdrawal_pages.following(full, full, None) == "2"
    assert venue.withdrawal_pages.following(full[:99], full[:99], "2") is None


@EACH
def test_every_parameter_is_plain_text(venue: UpbitLikeVenue) -> None:
    call = venue.submit(Order("XRP", "XRP", "rDestination", "007", "0.0000001", "c1"), NOW)
    assert call.moves_money
    asked = dict(call.params)
    assert (asked["amount"], asked["secondary_address"], asked["net_type"]) == ("0.0000001", "007", "XRP")
    assert "secondary_address" not in venue.submit(ORDER, NOW).params


@EACH
def test_the_venues_clock_is_the_date_of_its_answer(venue: UpbitLikeVenue) -> None:
    assert venue.time_in_header
    assert venue.read_server_time(NOW) == NOW + timedelta(milliseconds=500)
    with pytest.raises(LookupFailed):
        venue.read_server_time(None)


@EACH
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"type": "withdraw"}, 201),
        ({"type": "withdraw", "uuid": ""}, 201),
        ({"type": "withdraw", "uuid": 0}, 201),
        ({"type": "deposit", "uuid": "u1"}, 201),
        ({"type": "withdraw", "uuid": "u1", "withdrawal_id": "u2"}, 201),
        ({"status": "0000"}, 200),
        ({"status": "5600", "uuid": "u1"}, 200),
        ([ROW], 201),
        (ROW, 202 + 100),
        (ROW, 500),
        (ROW, 404),
        ({"error": None, "uuid": "u1"}, 201),
        ({"error": "out_of_scope", "uuid": "u1"}, 400),
        (refusal(400), 400),
        (refusal(None), 400),
    ],
)
def test_whatever_is_not_one_whole_acceptance_or_listed_refusal_is_unknown(
    venue: UpbitLikeVenue, body: Any, status: int
) -> None:
    assert decide(reply(body, status), venue.submit_rules).verdict is Verdict.UNKNOWN


@EACH
@pytest.mark.parametrize("name", ["uuid", "withdrawal_id"])
def test_a_row_with_an_id_is_acceptance(venue: UpbitLikeVenue, name: str) -> None:
    found = decide(reply({"type": "withdraw", name: "u1", "state": "WAITING"}, 201), venue.submit_rules)
    assert (found.verdict, found.withdrawal_id) == (Verdict.ACCEPTED, "u1")


LISTED = [(venue, code) for venue in VENUES for code in sorted(venue.submit_rules.refusals)]


@pytest.mark.parametrize(("venue", "code"), LISTED, ids=lambda item: getattr(item, "ccxt_id", item))
def test_every_listed_error_is_a_refusal(venue: UpbitLikeVenue, code: str) -> None:
    assert decide(reply(refusal(code), 400), venue.submit_rules).verdict is Verdict.REJECTED
    assert decide(reply(refusal(code), 502), venue.submit_rules).verdict is Verdict.UNKNOWN
    assert decide(reply({**refusal(code), "uuid": "u1"}, 400), venue.submit_rules).verdict is Verdict.UNKNOWN


@given(
    st.sampled_from(VENUES),
    st.text(max_size=30) | st.sampled_from(["nonce_used", "expired_jwt", "validation_error", "server_error"]),
)
def test_no_other_error_is_one(venue: UpbitLikeVenue, code: str) -> None:
    if code not in venue.submit_rules.refusals:
        found = decide(reply(refusal(code), 400), venue.submit_rules).verdict
        assert found in (Verdict.UNKNOWN, Verdict.DUPLICATE)


WALLET = {"currency": "ETH", "net_type": "ETH", "wallet_state": "working", "block_state": "normal"}
TERMS: dict[str, Any] = {
    "member_level": {"locked": False, "wallet_locked": None},
    "currency": {"code": "ETH", "withdraw_fee": "0.01", "wallet_support": ["deposit", "withdraw"]},
    "withdraw_limit": {"minimum": "0.02", "onetime": "50.0", "fixed": 8, "can_withdraw": True},
}


def rules_with(venue: UpbitLikeVenue, terms: dict[str, Any], **wallet: str) -> Any:
    (rules,) = venue.read_networks([[{**WALLET, **wallet}, {**WALLET, "currency": "USDC"}]], "ETH")
    return venue.read_terms(terms, rules)


@EACH
def test_the_rules_of_a_network_come_from_its_wallet_and_its_terms(venue: UpbitLikeVenue) -> None:
    rules = rules_with(venue, TERMS)
    assert (rules.network, rules.withdraw_enabled, rules.fee) == ("ETH", True, Decimal("0.01"))
    assert (rules.minimum, rules.maximum, rules.step) == (Decimal("0.02"), Decimal(50), Decimal("1E-8"))
    silent = {**TERMS, "withdraw_limit": {"minimum": None, "onetime": None, "fixed": None}}
    rules = rules_with(venue, silent)
    assert (rules.minimum, rules.maximum, rules.step) == (Decimal(0), None, Decimal("1E-8"))


@EACH
@pytest.mark.parametrize(
    ("terms", "wallet", "enabled"),
    [
        ({}, {"wallet_state": "withdraw_only"}, True),
        ({}, {"wallet_state": "deposit_only"}, False),
        ({}, {"wallet_state": "paused"}, False),
        ({}, {"wallet_state": "evaporated"}, False),
        ({"member_level": {"wallet_locked": True}}, {}, False),
        ({"member_level": {"locked": True}}, {}, False),
        ({"withdraw_limit": {"can_withdraw": False}}, {}, False),
        ({"currency": {"withdraw_fee": "0", "wallet_support": ["deposit"]}}, {}, False),
        ({"member_level": None}, {}, True),
    ],
)
def test_a_way_is_open_only_if_nothing_closes_it(
    venue: UpbitLikeVenue, terms: dict[str, Any], wallet: dict[str, str], enabled: bool
) -> None:
    assert rules_with(venue, {**TERMS, **terms}, **wallet).withdraw_enabled is enabled


@EACH
def test_what_is_locked_is_not_free(venue: UpbitLikeVenue) -> None:
    (held,) = venue.read_balances([{"currency": "ETH", "balance": "1000000.0", "locked": "0.5"}])
    assert (held.coin, held.free, held.locked, held.withdrawing) == ("ETH", Decimal(1000000), Decimal("0.5"), 0)


@EACH
def test_an_address_is_saved_for_a_coin_on_a_network_with_its_memo(venue: UpbitLikeVenue) -> None:
    row = {"currency": "XRP", "net_type": "XRP", "network_name": "Ripple", "withdraw_address": "rDestination"}
    (saved,) = venue.read_address_book([{**row, "secondary_address": "007"}])
    assert (saved.coin, saved.network, saved.address, saved.memo) == ("XRP", "XRP", "rDestination", "007")
    given_back = {"currency": "XRP", "net_type": "XRP", "deposit_address": "rOurs", "secondary_address": 3057887915}
    (ours,) = venue.read_deposit_addresses(given_back, "XRP")
    assert (ours.network, ours.address, ours.memo) == ("XRP", "rOurs", "3057887915")
    with pytest.raises(LookupFailed):
        venue.read_deposit_addresses({**given_back, "deposit_address": None}, "XRP")
