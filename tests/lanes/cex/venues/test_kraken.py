"""Kraken's adapter: what goes onto the wire and what its rows mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.kraken import REFUSALS, VENUE
from qtg_dagster.lanes.cex.venues.kraken.answers import STATES

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
ROW = {
    "method": "Tether USD (TRC20)",
    "network": "Tron",
    "aclass": "currency",
    "asset": "XXBT",
    "refid": "AQA7XYZ-ABCDEF-GHIJKL",
    "txid": None,
    "info": "TDestination",
    "amount": "9.50000000",
    "fee": "0.50000000",
    "time": 1774785600,
    "status": "Pending",
    "key": "the desk",
}


def body(result: Any, *errors: str) -> dict[str, Any]:
    return {"error": list(errors), "result": result}


def reply(json: Any, status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, json=json)


def state_of(status: str, prop: str | None, *, deposit: bool) -> tuple[RowState, bool]:
    row = {**ROW, "status": status, **({} if prop is None else {"status-prop": prop})}
    read = VENUE.read_deposits if deposit else VENUE.read_withdrawals
    (found,) = read(body([row]))
    return found.state, found.status_listed


def test_a_row_in_common_terms() -> None:
    (row,) = VENUE.read_withdrawals(body({"withdrawals": [ROW], "next_cursor": None}))
    assert (row.withdrawal_id, row.client_id, row.coin, row.network) == (ROW["refid"], None, "XBT", "Tron")
    assert (row.address, row.saved_as, row.amount, row.fee) == (
        "TDestination",
        "the desk",
        Decimal("9.5"),
        Decimal("0.5"),
    )
    assert row.applied_at == NOW


def test_a_network_that_is_not_named_stands_in_the_method() -> None:
    (row,) = VENUE.read_withdrawals(body([{**ROW, "network": None, "method": "ETH (Arbitrum One)"}]))
    assert row.network == "Arbitrum One"
    (row,) = VENUE.read_withdrawals(body([{**ROW, "network": None, "method": "Ether (Hex)"}]))
    assert row.network is None, "a kind of address, which contradicts no network"
    (row,) = VENUE.read_withdrawals(body([{**ROW, "network": None, "method": "Ether"}]))
    assert row.network is None


@pytest.mark.parametrize(
    ("status", "prop", "means"),
    [
        ("Initial", None, RowState.PENDING),
        ("Pending", None, RowState.PENDING),
        ("Settled", None, RowState.PENDING),
        ("Success", None, RowState.DONE),
        ("Failure", None, RowState.FAILED),
        ("Failure", "canceled", RowState.CANCELLED),
        ("Initial", "onhold", RowState.PENDING),
        ("Success", "on-hold", RowState.PENDING),
        ("Failure", "cancel-pending", RowState.PENDING),
    ],
)
def test_withdrawal_states(status: str, prop: str | None, means: RowState) -> None:
    assert state_of(status, prop, deposit=False) == (means, True)


@pytest.mark.parametrize(
    ("status", "prop", "means", "listed"),
    [
        ("Settled", None, RowState.PENDING, True),
        ("Success", None, RowState.DONE, True),
        ("Failure", None, RowState.FAILED, True),
        ("Success", "on-hold", RowState.LOCKED, True),
        ("Success", "return", RowState.PENDING, False),
    ],
)
def test_a_deposit_that_is_our_own_money_come_back_is_no_income(
    status: str, prop: str | None, means: RowState, listed: bool
) -> None:
    assert state_of(status, prop, deposit=True) == (means, listed)


@given(st.text(max_size=8), st.none() | st.text(min_size=1, max_size=8))
def test_what_nobody_knows_is_pending_and_marked(status: str, prop: str | None) -> None:
    if status not in STATES:
        assert state_of(status, prop, deposit=False) == (RowState.PENDING, False)
        assert state_of(status, prop, deposit=True) == (RowState.PENDING, False)


@given(st.text(min_size=1, max_size=8).filter(lambda prop: prop not in ("onhold", "on-hold", "cancel-pending")))
def test_an_unknown_word_beside_failure_makes_it_no_failure(prop: str) -> None:
    if prop != "canceled":
        assert state_of("Failure", prop, deposit=False) == (RowState.PENDING, False)


@pytest.mark.parametrize(
    "asked", [body([ROW], "EService:Busy"), {"result": [ROW]}, {"error": []}, [], None, body({}), body([{}]), body("x")]
)
def test_what_is_no_whole_answer_is_none(asked: Any) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(asked)


def test_a_list_without_a_cursor_is_no_page() -> None:
    with pytest.raises(LookupFailed):
        VENUE.withdrawal_pages.following(body([ROW]), [ROW], None)
    assert VENUE.withdrawal_pages.following(body({"withdrawals": [], "next_cursor": None}), [], None) is None
    assert VENUE.withdrawal_pages.following(body({"withdrawals": [], "next_cursor": "x"}), [], None) == "x"


def test_a_page_of_deposits_is_told_under_another_name_than_one_of_withdrawals() -> None:
    deposit = {name: value for name, value in ROW.items() if name != "key"}
    (row,) = VENUE.read_deposits(body({"deposit": [deposit], "next_cursor": None}))
    assert (row.deposit_id, row.amount) == (ROW["refid"], Decimal("9.5"))
    for told in ({"next_cursor": None}, {"withdrawals": [deposit], "next_cursor": None}):
        with pytest.raises(LookupFailed):
            VENUE.read_deposits(body(told))


def test_the_request_names_the_saved_address_and_what_it_must_lead_to() -> None:
    order = Order("XBT", "Bitcoin", "bc1dest", None, "0.0000001", "c1", saved_as="the desk", max_fee="0.001")
    call = VENUE.submit(order, NOW)
    assert dict(call.params) == {
        "asset": "XBT",
        "key": "the desk",
        "address": "bc1dest",
        "amount": "0.0000001",
        "max_fee": "0.001",
    }
    assert call.moves_money
    with pytest.raises(LookupFailed):
        VENUE.submit(Order("XBT", "Bitcoin", "bc1dest", None, "1", "c1"), NOW)


def test_a_window_is_in_seconds() -> None:
    page = VENUE.withdrawals("ETH", Window(NOW - timedelta(milliseconds=1500), NOW), None).params
    assert (page["start"], page["end"], page["cursor"]) == ("1774785598.5", "1774785600", "true")


@pytest.mark.parametrize("error", sorted(REFUSALS))
def test_every_listed_error_is_a_refusal(error: str) -> None:
    found = decide(reply({"error": [error]}), VENUE.submit_rules)
    assert (found.verdict, found.confirm_first) == (Verdict.REJECTED, error == "EFunding:Insufficient funds")
    assert decide(reply({"error": [error]}, 502), VENUE.submit_rules).verdict is Verdict.UNKNOWN
    assert decide(reply({"error": [error, "EService:Busy"]}), VENUE.submit_rules).verdict is Verdict.UNKNOWN
    assert decide(reply(body({"refid": "A1"}, error)), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_a_copy_within_the_nonce_window_is_provided_for() -> None:
    assert VENUE.takes_copies


@given(
    st.text(max_size=30) | st.sampled_from(["EAPI:Invalid nonce", "EFunding:Invalid amount", "EService:Unavailable"])
)
def test_no_other_error_is_one(error: str) -> None:
    if error not in REFUSALS:
        assert decide(reply({"error": [error]}), VENUE.submit_rules).verdict in (Verdict.UNKNOWN, Verdict.DUPLICATE)


@pytest.mark.parametrize("result", [{}, {"refid": ""}, {"refid": None}, {"refid": 0}, [], None, "A1"])
def test_success_without_an_id_is_unknown(result: Any) -> None:
    assert decide(reply(body(result)), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_success_with_an_id_is_acceptance() -> None:
    found = decide(reply(body({"refid": "A1"})), VENUE.submit_rules)
    assert (found.verdict, found.withdrawal_id) == (Verdict.ACCEPTED, "A1")


@pytest.mark.parametrize(("status", "enabled"), [("enabled", True), ("withdrawal_only", True), ("deposit_only", False)])
def test_the_rules_of_a_network_come_from_two_answers(status: str, enabled: bool) -> None:
    way = {"network": "Ethereum", "minimum": "0.01", "fee": {"asset": "XETH", "fee": "0.001"}}
    assets = {"XETH": {"altname": "ETH", "decimals": 10, "status": status}}
    (rules,) = VENUE.read_networks([body([way]), body(assets)], "ETH")
    assert (rules.step, rules.fee, rules.withdraw_enabled) == (Decimal("1E-10"), Decimal("0.001"), enabled)


def test_what_is_held_is_not_free() -> None:
    (held,) = VENUE.read_balances(body({"XETH": {"balance": "10.5", "hold_trade": "0.5"}}))
    assert (held.coin, held.free, held.locked) == ("ETH", Decimal(10), Decimal("0.5"))
