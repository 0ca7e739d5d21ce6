"""What Upbit's adapter has of its own."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import RawReply
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.upbit import VENUE

NOW = datetime(2026, 3, 29, tzinfo=UTC)
ROW = {"uuid": "u1", "currency": "ETH", "amount": "1", "created_at": "2026-03-29T10:30:00+09:00"}


def test_a_withdrawal_is_asked_for_on_the_chain() -> None:
    order = Order("XRP", "XRP", "rDestination", "007", "0.0000001", "c1", saved_as="rDestination")
    call = VENUE.submit(order, NOW)
    assert call.method == "privatePostWithdrawsCoin"
    assert dict(call.params) == {
        "currency": "XRP",
        "net_type": "XRP",
        "amount": "0.0000001",
        "address": "rDestination",
        "secondary_address": "007",
        "transaction_type": "default",
    }


def test_a_row_is_asked_for_by_its_id_alone() -> None:
    call = VENUE.withdrawals_by_ids(["u1"], "ETH", Window(NOW, NOW))
    assert (call.method, dict(call.params)) == ("privateGetWithdraw", {"uuid": "u1"})


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("WAITING", RowState.PENDING),
        ("PROCESSING", RowState.PENDING),
        ("processing", RowState.PENDING),
        ("ACCEPTED", RowState.PENDING),
        ("DONE", RowState.DONE),
        ("FAILED", RowState.FAILED),
        ("REJECTED", RowState.FAILED),
        ("CANCELLED", RowState.CANCELLED),
    ],
)
def test_withdrawal_states(state: str, means: RowState) -> None:
    (row,) = VENUE.read_withdrawals([{**ROW, "type": "withdraw", "state": state}])
    assert (row.state, row.status_listed) == (means, True)


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("PROCESSING", RowState.PENDING),
        ("ACCEPTED", RowState.DONE),
        ("TRAVEL_RULE_SUSPECTED", RowState.HELD),
        ("REFUNDING", RowState.HELD),
        ("REFUNDED", RowState.FAILED),
        ("REJECTED", RowState.FAILED),
        ("CANCELLED", RowState.CANCELLED),
    ],
)
def test_deposit_states(state: str, means: RowState) -> None:
    (row,) = VENUE.read_deposits([{**ROW, "type": "deposit", "state": state}])
    assert (row.state, row.status_listed) == (means, True)


def test_what_never_went_over_a_chain_says_so() -> None:
    row = {**ROW, "type": "withdraw", "state": "DONE", "txid": "0b6a", "transaction_type": "internal"}
    (seen,) = VENUE.read_withdrawals([row])
    assert seen.internal


def test_a_used_nonce_is_what_a_copy_of_a_taken_request_gets() -> None:
    body = {"error": {"name": "nonce_used", "message": "..."}}
    found = decide(RawReply(sent=True, status=401, json=body), VENUE.submit_rules)
    assert found.verdict is Verdict.DUPLICATE
    assert "nonce_used" not in VENUE.submit_rules.refusals | VENUE.access_codes.keys()
