"""OKX's adapter: what goes onto the wire and what its rows mean."""

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
from qtg_dagster.lanes.cex.venues.okx import REFUSALS, VENUE
from qtg_dagster.lanes.cex.venues.okx.answers import DEPOSIT_STATES, WITHDRAWAL_STATES

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
_UNDER_WAY = ("19", "17", "10", "0", "4", "5", "6", "8", "9", "12", "7", "1", "15", "16", "-3")
ROW = {
    "ccy": "USDT",
    "chain": "USDT-Arbitrum One",
    "amt": "9.5",
    "fee": "0.1",
    "feeCcy": "USDT",
    "ts": "1774785600000",
    "to": "0x" + "ab" * 20,
    "txId": "0x" + "12" * 32,
    "state": "2",
    "wdId": "67485",
    "clientId": "c1",
}
DEPOSIT = {
    "ccy": "XRP",
    "chain": "XRP-Ripple",
    "amt": "9.5",
    "ts": "1774785600000",
    "to": "rDest",
    "tag": "007",
    "txId": "AB" * 32,
    "state": "2",
    "depId": "d1",
}


def body(*rows: dict[str, Any], code: str = "0") -> dict[str, Any]:
    return {"code": code, "msg": "", "data": list(rows)}


def reply(json: Any, status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, json=json)


def test_a_row_in_common_terms() -> None:
    (row,) = VENUE.read_withdrawals(body(ROW))
    assert (row.withdrawal_id, row.client_id, row.coin, row.network) == ("67485", "c1", "USDT", "Arbitrum One")
    assert (row.amount, row.fee, row.state, row.applied_at) == (Decimal("9.5"), Decimal("0.1"), RowState.DONE, NOW)


@pytest.mark.parametrize(
    ("told", "fee"),
    [
        ({"fee": "0.01000000usdt"}, "0.01"),
        ({"fee": "0.01 USDT"}, "0.01"),
        ({"fee": "0.002", "feeCcy": "ETH"}, "0"),
        ({"fee": "0.1", "feeCcy": None}, "0.1"),
        ({"fee": ""}, "0"),
    ],
)
def test_fees_are_told_in_several_ways(told: dict[str, Any], fee: str) -> None:
    (row,) = VENUE.read_withdrawals(body({**ROW, **told}))
    assert (row.amount, row.fee) == (Decimal("9.5"), Decimal(fee))
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(body({**ROW, "fee": "0.1dollars"}))


def test_a_deposit_keeps_its_tag_as_text() -> None:
    (row,) = VENUE.read_deposits(body(DEPOSIT))
    assert (row.deposit_id, row.network, row.memo, row.state) == ("d1", "Ripple", "007", RowState.DONE)


@pytest.mark.parametrize(
    ("state", "means"),
    [
        *((code, RowState.PENDING) for code in _UNDER_WAY),
        ("2", RowState.DONE),
        ("-1", RowState.FAILED),
        ("-2", RowState.CANCELLED),
    ],
)
def test_withdrawal_states(state: str, means: RowState) -> None:
    (row,) = VENUE.read_withdrawals(body({**ROW, "state": state}))
    assert (row.state, row.status_listed) == (means, True)


@pytest.mark.parametrize(
    ("state", "means"),
    [
        *((code, RowState.PENDING) for code in ("0", "8", "17")),
        ("1", RowState.LOCKED),
        ("2", RowState.DONE),
        *((code, RowState.HELD) for code in ("11", "12", "13", "14")),
    ],
)
def test_deposit_states_are_another_table(state: str, means: RowState) -> None:
    (row,) = VENUE.read_deposits(body({**DEPOSIT, "state": state}))
    assert (row.state, row.status_listed) == (means, True)


@given(st.integers(-99, 99).map(str) | st.text(max_size=4))
def test_an_unlisted_state_is_pending_and_marked(state: str) -> None:
    (moved,) = VENUE.read_withdrawals(body({**ROW, "state": state}))
    (came,) = VENUE.read_deposits(body({**DEPOSIT, "state": state}))
    if state not in WITHDRAWAL_STATES:
        assert (moved.state, moved.status_listed) == (RowState.PENDING, False)
    if state not in DEPOSIT_STATES:
        assert (came.state, came.status_listed) == (RowState.PENDING, False)


@pytest.mark.parametrize("asked", [body(ROW, code="50001"), {"data": [ROW]}, {"code": "0"}, [], None, body({})])
def test_what_is_no_whole_answer_is_none(asked: Any) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(asked)


def test_the_request_names_everything_and_carries_only_text() -> None:
    call = VENUE.submit(Order("XRP", "Ripple", "rDest", "007", "0.0000001", "c1"), NOW)
    assert dict(call.params) == {
        "ccy": "XRP",
        "chain": "XRP-Ripple",
        "amt": "0.0000001",
        "dest": "4",
        "toAddr": "rDest:007",
        "clientId": "c1",
    }
    assert call.moves_money


def test_a_window_has_both_its_ends_and_the_cursor_takes_the_later_one() -> None:
    window = Window(NOW - timedelta(seconds=1), NOW)
    first = VENUE.withdrawals("ETH", window, None).params
    assert (first["before"], first["after"]) == ("1774785598999", "1774785600001")
    assert VENUE.withdrawals("ETH", window, "17").params["after"] == "17"


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_every_listed_code_is_a_refusal(code: str) -> None:
    for status in (200, 400, 401):
        found = decide(reply({"code": code, "msg": "no", "data": []}, status), VENUE.submit_rules)
        assert (found.verdict, found.confirm_first) == (Verdict.REJECTED, code in ("50011", "50102", "58205", "58350"))
    assert decide(reply({"code": code, "data": []}, 500), VENUE.submit_rules).verdict is Verdict.UNKNOWN
    assert decide(reply(body({"wdId": "7"}, code=code)), VENUE.submit_rules).verdict is Verdict.UNKNOWN


@given(st.integers(1, 99_999).map(str) | st.text(max_size=6))
def test_no_other_code_is_one(code: str) -> None:
    if code not in REFUSALS:
        found = decide(reply({"code": code, "msg": "", "data": []}), VENUE.submit_rules)
        assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("data", [[], [{}], [{"wdId": ""}], [{"wdId": 0}], [{"wdId": "1"}, {"wdId": "2"}], {}, None])
def test_success_without_one_id_is_unknown(data: Any) -> None:
    assert decide(reply({"code": "0", "msg": "", "data": data}), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_success_with_an_id_is_acceptance_and_a_part_of_it_is_not() -> None:
    accepted = decide(reply(body({"wdId": "67485"})), VENUE.submit_rules)
    assert (accepted.verdict, accepted.withdrawal_id) == (Verdict.ACCEPTED, "67485")
    assert decide(reply(body({"wdId": "67485"}, code="2")), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_maintenance_of_other_services_stops_no_withdrawal() -> None:
    row = {"title": "Upgrade", "state": "ongoing", "serviceType": "0"}
    assert VENUE.read_system_problem(body(row)) is None
    assert "Upgrade" in str(VENUE.read_system_problem(body({**row, "serviceType": "1"})))


def test_the_step_follows_from_the_number_of_digits() -> None:
    row = {"ccy": "ETH", "chain": "ETH-ERC20", "canWd": True, "fee": "0.001", "minWd": "0.01", "maxWd": "100"}
    (rules,) = VENUE.read_networks([body({**row, "wdTickSz": "8"}, {**row, "ccy": "BTC", "wdTickSz": "1"})], "ETH")
    assert (rules.network, rules.step, rules.fee) == ("ERC20", Decimal("0.00000001"), Decimal("0.001"))
