"""Binance's adapter: what goes onto the wire and what its rows mean."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.binance import DEPOSIT_STATES, VENUE, WITHDRAWAL_STATES

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)


def withdrawal(**fields: Any) -> dict[str, Any]:
    row = {"id": "w1", "coin": "USDC", "amount": "9", "transactionFee": "1", "status": "6", "network": "ETH"}
    return {**row, **fields}


def deposit(**fields: Any) -> dict[str, Any]:
    row = {"id": "d1", "coin": "USDC", "amount": "9", "status": 1, "network": "ETH", "insertTime": 1774785600000}
    return {**row, **fields}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("0", RowState.PENDING),
        ("1", RowState.CANCELLED),
        ("2", RowState.PENDING),
        ("3", RowState.FAILED),
        ("4", RowState.PENDING),
        ("5", RowState.FAILED),
        ("6", RowState.DONE),
    ],
)
def test_withdrawal_statuses(status: str, state: RowState) -> None:
    for spelling in (status, int(status)):
        (row,) = VENUE.read_withdrawals([withdrawal(status=spelling)])
        assert (row.state, row.status_listed) == (state, True)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("0", RowState.PENDING),
        ("1", RowState.DONE),
        ("2", RowState.FAILED),
        ("6", RowState.LOCKED),
        ("7", RowState.FAILED),
        ("8", RowState.PENDING),
    ],
)
def test_deposit_statuses_are_another_table(status: str, state: RowState) -> None:
    (row,) = VENUE.read_deposits([deposit(status=status)])
    assert row.state is state


@given(st.integers() | st.text(max_size=5))
def test_an_unlisted_status_is_pending_and_marked(status: int | str) -> None:
    (moved,) = VENUE.read_withdrawals([withdrawal(status=status)])
    (came,) = VENUE.read_deposits([deposit(status=status)])
    if str(status) not in WITHDRAWAL_STATES:
        assert (moved.state, moved.status_listed) == (RowState.PENDING, False)
    if str(status) not in DEPOSIT_STATES:
        assert (came.state, came.status_listed) == (RowState.PENDING, False)


def test_a_done_withdrawal_on_an_aliased_network() -> None:
    (row,) = VENUE.read_withdrawals([withdrawal(txId="0xaa", network="BEP20")])
    assert row.state is RowState.DONE
    assert VENUE.network_code(str(row.network)) == "BSC"


def test_a_deposit_row_without_a_fee_is_a_deposit() -> None:
    (row,) = VENUE.read_deposits([deposit()])
    assert row.deposit_id == "d1"


@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/New_York", "UTC"])
def test_apply_time_is_utc_wherever_the_process_runs(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", zone)
    time.tzset()
    try:
        (row,) = VENUE.read_withdrawals([withdrawal(applyTime="2026-03-29 01:30:00")])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert row.applied_at == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["Off-chain transfer 123", "Internal transfer 9", "off-chain transfer 1"])
def test_off_chain_notes_mark_an_internal_transfer(text: str) -> None:
    (row,) = VENUE.read_withdrawals([withdrawal(txId=text)])
    assert row.internal


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": 0},
        "text",
        None,
        [1],
        [{}],
        [withdrawal(id="")],
        [withdrawal(id=0)],
        [withdrawal(amount="NaN")],
        [withdrawal(amount="-1")],
        [withdrawal(amount=None)],
        [withdrawal(status=None)],
        [withdrawal(applyTime="yesterday")],
    ],
)
def test_a_malformed_history_is_no_answer(body: Any) -> None:
    with pytest.raises(LookupFailed, match="MALFORMED"):
        VENUE.read_withdrawals(body)


@given(st.text())
def test_client_ids_fit_the_venue_and_are_stable(key: str) -> None:
    client_id = VENUE.client_id(key)
    assert client_id.isascii()
    assert client_id.isalnum()
    assert len(client_id) == 32
    assert VENUE.client_id(key) == client_id


def test_different_attempts_have_different_client_ids() -> None:
    assert len({VENUE.client_id(f"node:{attempt}") for attempt in range(1000)}) == 1000


def test_the_request_names_everything_and_carries_only_text() -> None:
    order = Order("XRP", "XRP", "rDest", "007", "0.0000001", "c1")
    call = VENUE.submit(order, NOW)
    assert dict(call.params) == {
        "coin": "XRP",
        "network": "XRP",
        "address": "rDest",
        "addressTag": "007",
        "amount": "0.0000001",
        "withdrawOrderId": "c1",
        "walletType": "0",
        "timestamp": "1774785600000",
        "recvWindow": "5000",
    }
    assert call.moves_money


def test_a_withdrawal_without_a_memo_sends_none() -> None:
    assert "addressTag" not in VENUE.submit(Order("USDC", "ETH", "0x", None, "1", "c1"), NOW).params


def test_a_long_history_is_asked_for_in_pieces() -> None:
    window = Window(NOW - timedelta(days=200), NOW)
    parts = window.split(VENUE.history_window)
    assert len(parts) == 3
    assert all(part.end - part.start < timedelta(days=90) for part in parts)
    assert (parts[0].start, parts[-1].end) == (window.start, window.end)
    assert all(left.end == right.start for left, right in pairwise(parts))


def test_balances_tell_free_from_withdrawing() -> None:
    body = [{"asset": "USDC", "free": "1.10", "locked": "2", "freeze": "3", "withdrawing": "4", "btcValuation": "0"}]
    (balance,) = VENUE.read_balances(body)
    assert (balance.free, balance.locked, balance.withdrawing) == (Decimal("1.10"), Decimal(5), Decimal(4))


def test_a_missing_permission_field_is_no_permission() -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_permission_problem({})
    assert VENUE.read_permission_problem({"enableWithdrawals": False}) is not None
    assert VENUE.read_permission_problem({"enableWithdrawals": True}) is None


def test_a_network_without_a_step_takes_the_books_smallest() -> None:
    row = {"network": "ETH", "withdrawEnable": True, "withdrawFee": "1", "withdrawMin": "0"}
    (rules,) = VENUE.read_networks([[{"coin": "X", "networkList": [row]}]], "X")
    assert rules.step == Decimal("0.00000001")
