"""Gate's adapter: what goes onto the wire and what its rows mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.gate import CONFIRM_FIRST, REFUSALS, VENUE
from qtg_dagster.lanes.cex.venues.gate.records import DEPOSIT_STATES, REFUND_STATES, WITHDRAWAL_STATES
from qtg_dagster.sandbox.exchange.control import WITHDRAWAL_HISTORY
from tests.lanes.cex.venues.bench_gate import BENCH

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
_UNDER_WAY = ("REQUEST", "VERIFY", "REVIEW", "MANUAL", "DMOVE", "PEND", "PROCES", "SPLITPEND", "LOCKED", "EXTPEND")
ROW = {
    "id": "w1879219868",
    "timestamp": "1774785600",
    "withdraw_order_id": "c1",
    "currency": "USDT",
    "address": "TDest",
    "txid": "12" * 32,
    "block_number": "41575382",
    "amount": "222.61",
    "fee": "0.01",
    "memo": "",
    "status": "DONE",
    "chain": "TRX",
}
DEPOSIT = {
    "id": "d33361395",
    "currency": "XRP",
    "chain": "XRP",
    "address": "rDest",
    "amount": "100",
    "txid": "AB" * 32,
    "timestamp": "1774785600",
    "status": "DONE",
    "memo": "007",
}


def withdrawal(**changed: Any) -> Any:
    (row,) = VENUE.read_withdrawals([{**ROW, **changed}])
    return row


def deposit(**changed: Any) -> Any:
    (row,) = VENUE.read_deposits([{**DEPOSIT, **changed}])
    return row


def reply(json: Any, status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, json=json)


def judged(json: Any, status: int = 200) -> Any:
    return decide(reply(json, status), VENUE.submit_rules)


def test_a_row_in_common_terms() -> None:
    row = withdrawal()
    assert (row.withdrawal_id, row.client_id, row.coin, row.network) == ("w1879219868", "c1", "USDT", "TRX")
    assert (row.amount, row.fee, row.state, row.applied_at) == (Decimal("222.61"), Decimal("0.01"), RowState.DONE, NOW)
    assert (row.memo, row.tx_id, row.internal) == (None, "12" * 32, False)


def test_a_deposit_keeps_its_tag_as_text() -> None:
    row = deposit()
    assert (row.deposit_id, row.network, row.memo, row.state, row.amount) == (
        "d33361395",
        "XRP",
        "007",
        RowState.DONE,
        Decimal(100),
    )
    assert row.inserted_at == NOW


@pytest.mark.parametrize(
    ("state", "means"),
    [
        *((word, RowState.PENDING) for word in (*_UNDER_WAY, "CANCELPEND")),
        ("FAIL", RowState.HELD),
        ("FVERIFY", RowState.HELD),
        ("DONE", RowState.DONE),
        ("INVALID", RowState.FAILED),
        ("REJECT", RowState.FAILED),
        ("CANCEL", RowState.CANCELLED),
    ],
)
def test_withdrawal_states(state: str, means: RowState) -> None:
    row = withdrawal(status=state)
    assert (row.state, row.status_listed, row.raw_status) == (means, True, state)


def test_every_listed_word_is_tested() -> None:
    assert {*_UNDER_WAY, "CANCELPEND", "FAIL", "FVERIFY", "DONE", "INVALID", "REJECT", "CANCEL"} == set(
        WITHDRAWAL_STATES
    )


@pytest.mark.parametrize("block", ["", "0", "00", None, "-1", "soon", "1.5", 0])
def test_done_without_a_block_is_not_done(block: Any) -> None:
    row = withdrawal(block_number=block)
    assert (row.state, row.status_listed) == (RowState.PENDING, True)
    missing = {name: value for name, value in ROW.items() if name != "block_number"}
    assert VENUE.read_withdrawals([missing])[0].state is RowState.PENDING
    assert withdrawal(block_number=7).state is RowState.DONE


@pytest.mark.parametrize("note", ["Internal transaction 260594131", "internal transfer 7"])
def test_what_stays_inside_the_venue_has_no_block(note: str) -> None:
    row = withdrawal(txid=note, block_number="0", fee="0")
    assert (row.state, row.internal, row.amount) == (RowState.DONE, True, Decimal("222.61"))
    assert withdrawal(txid=note, status="REQUEST").state is RowState.PENDING
    assert not withdrawal(txid="128988928203223323290").internal


@pytest.mark.parametrize(
    ("state", "means"),
    [
        *((word, RowState.PENDING) for word in ("REVIEW", "PEND", "TRACK", "MANUAL")),
        ("DEP_CREDITED", RowState.LOCKED),
        ("DONE", RowState.DONE),
        ("BLOCKED", RowState.HELD),
        ("INVALID", RowState.FAILED),
    ],
)
def test_deposit_states_are_another_table(state: str, means: RowState) -> None:
    row = deposit(status=state)
    assert (row.state, row.status_listed) == (means, True)


@pytest.mark.parametrize(
    ("refund", "means"),
    [
        ("REFUNDING", RowState.HELD),
        ("REFUND_FAILED", RowState.HELD),
        ("REJECTED", RowState.HELD),
        ("REFUNDED", RowState.FAILED),
    ],
)
def test_a_blocked_deposit_is_lost_once_it_was_sent_back(refund: str, means: RowState) -> None:
    row = deposit(status="BLOCKED", refund_status=refund)
    assert (row.state, row.status_listed, row.raw_status) == (means, True, f"BLOCKED {refund}")
    for status in ("DONE", "PEND", "INVALID"):  # no document tells of it there
        row = deposit(status=status, refund_status=refund)
        assert (row.state, row.status_listed) == (RowState.PENDING, False)


@given(st.text(max_size=9))
def test_an_unlisted_state_is_pending_and_marked(word: str) -> None:
    moved, came, refund = withdrawal(status=word), deposit(status=word), deposit(status="BLOCKED", refund_status=word)
    if word not in WITHDRAWAL_STATES:
        assert (moved.state, moved.status_listed) == (RowState.PENDING, False)
    if word not in DEPOSIT_STATES:
        assert (came.state, came.status_listed) == (RowState.PENDING, False)
    if word.strip() not in REFUND_STATES:
        assert (refund.state, refund.status_listed) == (RowState.PENDING, False)


def test_older_rows_name_the_chain_with_the_coin_and_some_answers_are_in_lower_case() -> None:
    old = {name: value for name, value in DEPOSIT.items() if name != "chain"}
    (row,) = VENUE.read_deposits([{**old, "currency": "USDT_TRX"}])
    assert (row.coin, row.network) == ("USDT", "TRX")
    assert (withdrawal(currency="usdt", chain="eth").coin, withdrawal(chain="eth").network) == ("USDT", "ETH")
    (row,) = VENUE.read_deposits([{**old, "currency": "XRP"}])
    assert row.network is None


def test_a_code_that_was_given_to_somebody_spoils_no_page() -> None:
    code = {**ROW, "id": "b7", "amount": "-5", "fee": "0", "status": "BCODE", "txid": ""}
    given_away, ours = VENUE.read_withdrawals([code, ROW])
    assert (given_away.amount, given_away.state, given_away.status_listed) == (Decimal(5), RowState.PENDING, False)
    assert ours.state is RowState.DONE
    with pytest.raises(LookupFailed):
        withdrawal(amount="-5")


def test_what_arrives_is_told_to_the_last_digit() -> None:
    row = withdrawal(amount="123456789012345678901.123456789012345679", fee="0.000000000000000001")
    assert f"{VENUE.arriving(row):f}" == "123456789012345678901.123456789012345678"


@pytest.mark.parametrize("fee", ["", None, "0"])
def test_without_a_fee_all_of_it_arrives(fee: Any) -> None:
    assert VENUE.arriving(withdrawal(fee=fee)) == Decimal("222.61")


@pytest.mark.parametrize(
    "asked",
    [
        None,
        {},
        {"label": "INVALID_KEY", "message": "no"},
        [[ROW]],
        [{**ROW, "id": ""}],
        [{**ROW, "id": "0"}],
        [{**ROW, "status": None}],
        [{**ROW, "amount": "a lot"}],
        [{**ROW, "fee": "223"}],
        [{**ROW, "timestamp": "yesterday"}],
        [{name: value for name, value in ROW.items() if name != "currency"}],
    ],
)
def test_what_is_no_whole_answer_is_none(asked: Any) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(asked)


def test_the_request_names_everything_and_carries_only_text() -> None:
    order = Order("XRP", "XRP", "rDest", "007", "0.0000001", VENUE.client_id("n1:1"))
    call = VENUE.submit(order, NOW)
    assert dict(call.params) == {
        "currency": "XRP",
        "chain": "XRP",
        "address": "rDest",
        "amount": "0.0000001",
        "withdraw_order_id": VENUE.client_id("n1:1"),
        "memo": "007",
    }
    assert (call.method, call.moves_money) == ("privateWithdrawalsPostWithdrawals", True)
    assert "memo" not in VENUE.submit(Order("ETH", "ETH", "0x", None, "1", "c"), NOW).params


@given(
    st.timedeltas(timedelta(), timedelta(days=9999)),
    st.timedeltas(timedelta(milliseconds=1), timedelta(days=200)),
)
def test_windows_cover_all_in_whole_seconds_and_thirty_days_at_most(later: timedelta, length: timedelta) -> None:
    whole = Window(NOW + later, NOW + later + length)
    told = []
    for part in whole.split(VENUE.history_window):
        for call in (VENUE.withdrawals("ETH", part, None), VENUE.deposits(None, part, "300")):
            first, last = int(call.params["from"]), int(call.params["to"])
            assert 0 <= last - first <= 30 * 86_400
        told.append((first, last))
    assert told[0][0] <= whole.start.timestamp()
    assert told[-1][1] >= whole.end.timestamp()
    assert all(after[0] <= before[1] for before, after in pairwise(told))


def test_look_ups_and_pages() -> None:
    window = Window(NOW, NOW + timedelta(seconds=1))
    bounds = {"from": "1774785600", "to": "1774785601"}
    assert dict(VENUE.withdrawal_by_client_id("c1", window).params) == {"withdraw_order_id": "c1", **bounds}
    assert dict(VENUE.withdrawals_by_ids(["w7"], "ETH", window).params) == {"withdraw_id": "w7"}
    page = {"limit": "100", "offset": "0", **bounds}
    assert dict(VENUE.withdrawals(None, window, None).params) == page
    assert dict(VENUE.deposits("ETH", window, "100").params) == {**page, "offset": "100", "currency": "ETH"}
    assert VENUE.withdrawal_pages.following([], [ROW] * 100, "100") == "200"
    assert VENUE.withdrawal_pages.following([], [ROW] * 99, None) is None
    assert VENUE.histories_of_all_coins


@pytest.mark.parametrize("label", sorted(REFUSALS))
def test_every_listed_label_is_a_refusal(label: str) -> None:
    for status in (200, 400, 401, 403):
        found = judged({"label": label, "message": "no"}, status)
        assert (found.verdict, found.error_code) == (Verdict.REJECTED, label)
        assert found.confirm_first is (label in CONFIRM_FIRST)
    assert judged({"label": label, "detail": "no"}, 500).verdict is Verdict.UNKNOWN
    assert judged({"label": label, "id": "w7"}).verdict is Verdict.UNKNOWN


@given(
    st.sampled_from(["INTERNAL", "INVALID_PARAM_VALUE", "TOO_MANY_REQUESTS", "ACCOUNT_LOCKED"]) | st.text(max_size=9)
)
def test_no_other_label_is_one(label: str) -> None:
    if label.strip() not in REFUSALS:
        assert judged({"label": label, "message": ""}, 400).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("label", ["DUPLICATE_REQUEST", "ORDER_EXISTS", "REPEATED_CREATION"])
def test_a_repeat_is_looked_up(label: str) -> None:
    assert judged({"label": label, "message": ""}, 400).verdict is Verdict.DUPLICATE
    words = {"label": "INVALID_PARAM_VALUE", "message": "Order already exists, do not resubmit"}
    assert judged(words, 400).verdict is Verdict.DUPLICATE


def test_success_is_an_id_without_a_label() -> None:
    accepted = judged({"id": "w64413318", "status": "REQUEST"})
    assert (accepted.verdict, accepted.withdrawal_id) == (Verdict.ACCEPTED, "w64413318")
    for body in ({"id": ""}, {"id": None}, {"id": 0}, {}, [{"id": "w7"}], None, {"id": "w7", "succeeded": False}):
        assert judged(body).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("name", "code"), [("erc20", "ETH"), ("TRC20", "TRX"), ("ArbitrumOne", "ARBEVM"), ("eth", "ETH"), ("FOO", "FOO")]
)
def test_networks_by_any_name_are_the_venues(name: str, code: str) -> None:
    assert VENUE.network_code(name) == code
    assert VENUE.network_code(code) == code


async def test_a_failure_on_the_chain_is_watched_and_never_called_one(open_desk: Any, order: Any) -> None:
    """The venue may send it again, or it arrives after all: who pays again now pays twice."""
    desk = await open_desk(BENCH)
    action = desk.executor("withdrawal_action")
    prepared = await action.prepare(order())
    refs = (await action.submit(order(), prepared)).provider_refs
    made, watched = refs["exchange_withdrawal_id"], desk.executor("withdrawal_observe")
    following = order(amount=None, destination=None, withdrawal_id=made, client_id=refs["withdrawal_client_id"])
    for shown, code in (
        ({"status": "FAIL"}, "HELD_AT_VENUE"),
        ({"status": "FAIL", "txid": "0x" + "12" * 32}, "HELD_AT_VENUE"),
        ({"status": "DONE", "txid": "0x" + "12" * 32, "block_number": "0"}, None),
        ({"status": "DONE", "txid": "128988928203223323290", "block_number": "7"}, "NO_TRANSACTION"),
    ):
        await desk.control.show_instead("venue_a", made, **shown)
        seen = await watched.observe(following)
        assert (seen.status, seen.error_code) == (ResultStatus.OBSERVING, code), shown
        recovered = await action.recover(order({"prepared": prepared, "node_refs": refs}))
        assert recovered.status is ResultStatus.COMPLETED, shown  # it is on record: what follows is watched
    await desk.control.show_status("venue_a", WITHDRAWAL_HISTORY, made, "completed")
    await desk.control.show_instead("venue_a", made, txid="0x" + "12" * 32)
    seen = await watched.observe(following)
    assert (seen.status, seen.provider_refs["withdrawal_amount"]) == (ResultStatus.COMPLETED, "1.499")
