"""What Bithumb's adapter has of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.bithumb import VENUE

NOW = datetime(2026, 3, 29, tzinfo=UTC)
ROW = {"uuid": "200377211", "currency": "ETH", "amount": "1", "created_at": "2026-03-29T10:30:00+09:00"}
ORDER = Order("XRP", "XRP", "rDestination", "007", "0.0000001", "c1")
ASKED = {
    "currency": "XRP",
    "net_type": "XRP",
    "amount": "0.0000001",
    "address": "rDestination",
    "secondary_address": "007",
}


def test_what_a_withdrawal_asks_for() -> None:
    call = VENUE.submit(ORDER, NOW)
    assert (call.method, call.moves_money) == ("privatePostV1WithdrawsCoin", True)
    assert dict(call.params) == ASKED


def test_the_receiver_is_told_and_changes_nothing_of_the_order() -> None:
    receiver = {"exchange_name": "Upbit", "receiver_type": "personal", "receiver_en_name": "Gildong Hong"}
    more = {"amount": "9", "address": "another", "receiver_ko_name": ""}
    call = VENUE.with_beneficiary(VENUE.submit(ORDER, NOW), {**receiver, **more})
    assert dict(call.params) == {**receiver, **ASKED}
    assert call.moves_money


def test_a_row_is_asked_for_by_its_id_and_coin() -> None:
    call = VENUE.withdrawals_by_ids(["200377211"], "ETH", Window(NOW, NOW))
    assert (call.method, dict(call.params)) == ("privateGetV1Withdraw", {"uuid": "200377211", "currency": "ETH"})
    assert VENUE.ids_of_one_coin


@pytest.mark.parametrize(
    ("state", "means"),
    [("PROCESSING", RowState.PENDING), ("processing", RowState.PENDING), ("DONE", RowState.DONE)],
)
def test_withdrawal_states(state: str, means: RowState) -> None:
    row = {**ROW, "type": "withdraw", "state": state, "net_type": None, "txid": "20240425231724.50893"}
    (seen,) = VENUE.read_withdrawals([row])
    assert (seen.state, seen.status_listed, seen.network) == (means, True, None)


@pytest.mark.parametrize("state", ["FAILED", "REJECTED", "WAITING"])
def test_a_word_that_is_not_documented_here_means_nothing(state: str) -> None:
    (seen,) = VENUE.read_withdrawals([{**ROW, "type": "withdraw", "state": state}])
    assert (seen.state, seen.status_listed) == (RowState.PENDING, False)


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("DEPOSIT_PROCESSING", RowState.PENDING),
        ("DEPOSIT_ACCEPTED", RowState.DONE),
        ("ACCEPTED", RowState.DONE),
        ("DEPOSIT_CANCELLED", RowState.CANCELLED),
        ("REQUESTED_PENDING", RowState.HELD),
        ("REQUESTED_ADMIN_REJECTED", RowState.HELD),
        ("REFUNDING_ACCEPTED", RowState.HELD),
        ("REFUNDED_CANCELLED", RowState.HELD),
        ("REFUNDED_ACCEPTED", RowState.FAILED),
    ],
)
def test_deposit_states(state: str, means: RowState) -> None:
    (row,) = VENUE.read_deposits([{**ROW, "type": "deposit", "state": state}])
    assert (row.state, row.status_listed) == (means, True)


@pytest.mark.parametrize(
    "code", ["withdraw_insufficient_balance", "expired_jwt", "jwt_verification", "invalid_parameter"]
)
def test_what_a_copy_of_a_taken_request_may_get_refuses_nothing(code: str) -> None:
    body = {"error": {"name": code, "message": "..."}}
    assert decide(RawReply(sent=True, status=400, json=body), VENUE.submit_rules).verdict is Verdict.UNKNOWN
    assert VENUE.takes_copies


@pytest.mark.parametrize(
    ("fees", "fee"),
    [
        ({"withdraw_fee": "0.0001"}, Decimal("0.0001")),
        ({"withdraw_fee": None, "withdraw_rate": "0.1", "withdraw_fee_max": "5"}, Decimal(5)),
        ({"withdraw_fee": None, "withdraw_rate": "0.1"}, None),
    ],
)
def test_a_fee_that_is_a_share_counts_as_the_most_that_it_can_be(fees: dict[str, Any], fee: Decimal | None) -> None:
    (rules,) = VENUE.read_networks([[{"currency": "ETH", "net_type": "ETH", "wallet_state": "working"}]], "ETH")
    terms = {"currency": {**fees, "wallet_support": ["withdraw"]}, "withdraw_limit": {"minimum": "0.01"}}
    if fee is None:
        with pytest.raises(LookupFailed):
            VENUE.read_terms(terms, rules)
        return
    assert VENUE.read_terms(terms, rules).fee == fee
