"""Bybit's adapter by itself: rows in the documented shape, requests, and every code."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.inventory import VenueEntry
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Order, RowState, Window
from qtg_dagster.lanes.cex.venues.bybit import REFUSALS, VENUE
from qtg_dagster.lanes.cex.venues.bybit.records import DEPOSIT_STATES, WITHDRAWAL_STATES

ADDRESS = "0xAbababababababababababababababababababAb"
ORDER = Order("ETH", "ETH", ADDRESS.lower(), None, "1.5", "c" * 32, saved_as=ADDRESS)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(days=1), NOW)


def body(result: Any, code: Any = 0) -> dict[str, Any]:
    return {"retCode": code, "retMsg": "success", "result": result, "retExtInfo": {}, "time": 1767225600123}


def withdrawal(**change: Any) -> dict[str, Any]:
    row = {
        "withdrawId": "9976",
        "txID": "0x" + "1f" * 32,
        "withdrawType": 0,
        "coin": "ETH",
        "chain": "ETH",
        "amount": "1.5",
        "withdrawFee": "0.001",
        "status": "success",
        "toAddress": ADDRESS,
        "tag": "",
        "createTime": "1767225600000",
        "updateTime": "1767225660000",
    }
    return {**row, **change}


def deposit(**change: Any) -> dict[str, Any]:
    row = {
        "coin": "ETH",
        "chain": "ETH",
        "amount": "1.5",
        "txID": "0x" + "1f" * 32,
        "status": 3,
        "toAddress": ADDRESS,
        "tag": "007",
        "depositFee": "",
        "successAt": "1767225600000",
        "confirmations": "12",
        "txIndex": "3",
        "blockHash": "",
        "id": "5512",
    }
    return {**row, **change}


def read(*rows: dict[str, Any]) -> Any:
    return VENUE.read_withdrawals(body({"rows": list(rows), "nextPageCursor": ""}))


def read_deposits(*rows: dict[str, Any]) -> Any:
    return VENUE.read_deposits(body({"rows": list(rows), "nextPageCursor": ""}))


def test_a_row_in_common_terms() -> None:
    (row,) = read(withdrawal())
    assert (row.withdrawal_id, row.client_id, row.amount, row.fee) == ("9976", None, Decimal("1.5"), Decimal("0.001"))
    assert (row.state, row.applied_at, row.internal, row.memo) == (RowState.DONE, NOW, False, None)
    (inside,) = read(withdrawal(withdrawType=1, txID=""))
    assert (inside.internal, inside.tx_id) == (True, None)


@pytest.mark.parametrize(("word", "state"), WITHDRAWAL_STATES.items())
def test_withdrawal_states(word: str, state: RowState) -> None:
    (row,) = read(withdrawal(status=word))
    assert (row.state, row.status_listed) == (state, True)


def test_what_is_on_the_chain_and_not_said_to_be_done_is_pending() -> None:
    assert WITHDRAWAL_STATES["BlockchainConfirmed"] is RowState.PENDING
    assert DEPOSIT_STATES["70011"] is RowState.FAILED, "it was credited, and taken back"


@pytest.mark.parametrize(("number", "state"), DEPOSIT_STATES.items())
def test_deposit_states_are_another_table(number: str, state: RowState) -> None:
    (row,) = read_deposits(deposit(status=int(number)))
    assert (row.state, row.status_listed) == (state, True)


@given(st.text(min_size=1, max_size=12))
def test_an_unlisted_state_is_pending_and_marked(word: str) -> None:
    (row,) = read(withdrawal(status=word))
    assert row.status_listed == (word in WITHDRAWAL_STATES)
    assert row.status_listed or row.state is RowState.PENDING
    (came,) = read_deposits(deposit(status=word))
    assert came.status_listed == (word in DEPOSIT_STATES)


def test_a_deposit_is_one_by_the_endpoint_that_was_asked() -> None:
    (row,) = read_deposits({name: value for name, value in deposit().items() if name != "depositFee"})
    assert (row.deposit_id, row.memo, row.inserted_at) == ("5512", "007", NOW)


@pytest.mark.parametrize("at", ["", "0", None])
def test_a_deposit_on_its_way_is_a_row_without_a_time(at: str | None) -> None:
    (row,) = read_deposits(deposit(successAt=at, status=1))
    assert (row.inserted_at, row.state) == (None, RowState.PENDING)


def test_two_deposits_of_one_transaction_are_two_where_rows_have_no_id() -> None:
    rows = [{k: v for k, v in deposit(txIndex=place).items() if k != "id"} for place in ("1", "2")]
    first, second = read_deposits(*rows)
    assert first.deposit_id != second.deposit_id
    with pytest.raises(LookupFailed):
        read_deposits({**rows[0], "txID": ""})


def test_deposits_between_customers_are_read_after_those_over_a_chain() -> None:
    pages = VENUE.deposit_pages
    asked = [VENUE.deposits("ETH", WINDOW, None)]
    cursor = None
    for token in ("next", "", "more", ""):
        cursor = pages.following(body({"rows": [], "nextPageCursor": token}), [], cursor)
        if cursor is not None:
            asked.append(VENUE.deposits("ETH", WINDOW, cursor))
    assert [call.method.removeprefix("privateGetV5AssetDepositQuery") for call in asked] == [
        "Record",
        "Record",
        "InternalRecord",
        "InternalRecord",
    ]
    assert [call.params.get("cursor") for call in asked] == [None, "next", None, "more"]
    assert cursor is None
    (row,) = read_deposits({"id": "7", "coin": "ETH", "amount": "2", "status": 2, "createdTime": "1767225600"})
    assert (row.deposit_id, row.state, row.tx_id, row.inserted_at) == ("internal:7", RowState.DONE, None, NOW)


def test_who_sent_a_deposit_from_another_account_there_is_not_written_down() -> None:
    row = {"id": "7", "type": 1, "coin": "ETH", "amount": "2", "status": 2, "createdTime": "1767225600"}
    (found,) = read_deposits({**row, "address": "wilhelmina***@example.com", "txID": "77c37e5c-d9fa-41e5"})
    assert "wilhelmina" not in str(found)
    assert (found.address, found.raw["txID"]) == (None, "77c37e5c-d9fa-41e5")


def test_pages_that_lead_to_themselves_are_not_the_end() -> None:
    page = body({"rows": [], "nextPageCursor": "same"})
    with pytest.raises(LookupFailed, match="PAGES_STAND_STILL"):
        VENUE.deposit_pages.following(page, [], VENUE.deposit_pages.following(page, [], None))


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        None,
        {"result": {"rows": []}},
        body({"rows": []}, code=10016),
        body({"rows": {}}),
        body({}),
        body({"rows": [withdrawal(withdrawId="")]}),
        body({"rows": [withdrawal(amount="-1")]}),
        body({"rows": [withdrawal(createTime="yesterday")]}),
    ],
)
def test_what_is_no_whole_answer_is_none(answer: Any) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(answer)


def test_the_request_names_everything_and_amounts_are_text() -> None:
    call = VENUE.submit(ORDER, NOW)
    assert call.params == {
        "coin": "ETH",
        "chain": "ETH",
        "address": ADDRESS,  # as the venue's book spells it
        "amount": "1.5",
        "accountType": "FUND",
        "requestId": "c" * 32,
    }
    assert call.objects == {"timestamp": 1767225600000, "forceChain": 1, "feeType": 0}
    assert call.moves_money
    tagged = VENUE.submit(Order("XRP", "XRP", "rDest", "007", "0.0000001", "c1"), NOW)
    assert (tagged.params["tag"], tagged.params["amount"]) == ("007", "0.0000001")


def test_the_record_is_asked_for_all_kinds_of_withdrawals_in_less_than_thirty_days() -> None:
    call = VENUE.withdrawals(None, WINDOW, "next")
    assert (call.params["withdrawType"], call.params["cursor"], call.params["limit"]) == ("2", "next", "50")
    assert "coin" not in call.params
    assert VENUE.history_window < timedelta(days=30)
    assert VENUE.withdrawals_by_ids(["9976"], "ETH", WINDOW).params["withdrawType"] == "2"


def reply(code: Any, result: Any = None) -> RawReply:
    said = {"retCode": code, "retMsg": "refused", "result": result or {}}
    return RawReply(sent=True, status=200, json=said)


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_every_listed_code_is_a_refusal(code: str) -> None:
    assert decide(reply(int(code)), VENUE.submit_rules).verdict is Verdict.REJECTED


@given(st.integers(1, 200_000))
def test_no_other_code_is_one(code: int) -> None:
    outcome = decide(reply(code), VENUE.submit_rules)
    assert (outcome.verdict is Verdict.REJECTED) == (str(code) in REFUSALS)
    assert outcome.verdict is not Verdict.ACCEPTED


def test_what_a_copy_of_a_taken_request_is_answered_with_is_confirmed_first() -> None:
    assert VENUE.submit_rules.confirm_first == {"10002", "10006", "131086", "131088", "131096", "131212"}
    assert {decide(reply(code), VENUE.submit_rules).verdict for code in (131082, 10014)} == {Verdict.DUPLICATE}
    assert not REFUSALS & {"131001", "131003", "131085", "131201", "10016"}


def test_success_needs_an_id() -> None:
    assert decide(reply(0, {"id": "77"}), VENUE.submit_rules).verdict is Verdict.ACCEPTED
    assert decide(reply("0", {"id": "77"}), VENUE.submit_rules).verdict is Verdict.ACCEPTED
    assert decide(reply(0), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_a_share_is_taken_of_all_that_leaves_not_of_what_arrives() -> None:
    chain = {
        "chain": "ETH",
        "withdrawFee": "0.1",
        "withdrawPercentageFee": "0.2",
        "withdrawMin": "0.01",
        "minAccuracy": "4",
        "chainWithdraw": "1",
    }
    entry = {"coin": "ETH", "remainAmount": "1000", "chains": [chain, {**chain, "chain": "OLD", "withdrawFee": ""}]}
    rules, closed = VENUE.read_networks([body({"rows": [entry]})], "ETH")
    assert (rules.fee_of(Decimal(10)), rules.step, rules.maximum) == (Decimal("2.6"), Decimal("0.0001"), Decimal(1000))
    assert (rules.withdraw_enabled, closed.withdraw_enabled) == (True, False)
    with pytest.raises(LookupFailed, match="leaves nothing"):
        VENUE.read_networks([body({"rows": [{**entry, "chains": [{**chain, "withdrawPercentageFee": "1"}]}]})], "ETH")


def test_maintenance_of_streams_stops_no_withdrawal() -> None:
    row = {"title": "Upgrade", "state": "ongoing", "serviceTypes": [3, 4]}
    assert VENUE.read_system_problem(body({"list": [row]})) is None
    assert "Upgrade" in str(VENUE.read_system_problem(body({"list": [{**row, "serviceTypes": [1]}]})))
    assert VENUE.read_system_problem(body({"list": [{**row, "serviceTypes": [1], "state": "scheduled"}]})) is None


def test_the_venues_time_is_in_its_answers() -> None:
    assert VENUE.read_server_time(body({"timeSecond": "1767225600", "timeNano": "1767225600123000000"})) == datetime(
        2026, 1, 1, 0, 0, 0, 123000, UTC
    )
    assert VENUE.read_answer_time(body({})) == datetime(2026, 1, 1, 0, 0, 0, 123000, UTC)


def test_what_is_owed_in_the_trading_account_is_no_holding() -> None:
    coins = [
        {"coin": "ETH", "walletBalance": "2", "locked": "0.5"},
        {"coin": "USDC", "walletBalance": "-3", "locked": ""},
    ]
    eth, usdc = VENUE.read_other_wallet("UNIFIED", body({"list": [{"coin": coins}]}))
    assert (eth.free, eth.locked, usdc.free) == (Decimal("1.5"), Decimal("0.5"), Decimal(0))


def test_one_coin_over_one_network_waits_for_its_turn() -> None:
    keys = {"api_key": {"env": "DESK_KEY"}, "api_secret": {"env": "DESK_SECRET"}}
    entry = VenueEntry.model_validate({"wire": "bybit", **keys, "assets": {}, "networks": {}})
    account = VenueAccount("bybit_main", entry)
    account.__dict__["transport"] = type("Elsewhere", (), {"is_local": False})()
    account._last_submits["ETH", "ETH"] = time.monotonic()
    assert 9 < account.seconds_until_turn(ORDER) <= 10
    assert account.seconds_until_turn(Order("ETH", "ARBI", ADDRESS, None, "1", "c")) == 0
    account._last_submits["ETH", "ETH"] -= 10
    assert account.seconds_until_turn(ORDER) == 0
