"""Bitget's adapter: what goes onto the wire and what its rows mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.lanes.cex.access import access_refusal
from qtg_dagster.lanes.cex.matching import differences
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Access, Order, RowState, Window
from qtg_dagster.lanes.cex.venues.bitget import VENUE
from qtg_dagster.lanes.cex.venues.bitget.words import (
    ACCESS_CODES,
    CONFIRM_FIRST,
    DEPOSIT_STATES,
    DUPLICATES,
    REFUSALS,
    WITHDRAWAL_STATES,
)

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
HASH = "0x" + "12" * 32
ROW = {
    "orderId": "1083832260799930368",
    "tradeId": HASH,
    "clientOid": "c1",
    "coin": "USDT",
    "type": "withdraw",
    "size": "10.00000000",
    "fee": "-0.5000000",
    "status": "success",
    "toAddress": "0x" + "ab" * 20,
    "dest": "on_chain",
    "chain": "erc20",
    "confirm": "100",
    "fromAddress": None,
    "cTime": "1774785600000",
    "uTime": "1774785680247",
}
DEPOSIT = {
    "orderId": "1083832260799930369",
    "tradeId": "AB" * 32,
    "coin": "XRP",
    "type": "deposit",
    "size": "9.5",
    "status": "success",
    "toAddress": "rDest",
    "dest": "on_chain",
    "chain": "XRP",
    "tag": "007",
    "cTime": "1774785600000",
}
CHAIN = {
    "chain": "ERC20",
    "needTag": "false",
    "withdrawable": "true",
    "withdrawFee": "0.001",
    "extraWithdrawFee": "0",
    "minWithdrawAmount": "0.01",
    "withdrawStep": "0",
    "withdrawMinScale": "8",
}
ORDER = Order("USDT", "ERC20", "0x" + "ab" * 20, None, "10", "c1")


def body(data: Any, code: str = "00000", words: str = "success") -> dict[str, Any]:
    return {"code": code, "msg": words, "requestTime": 1774785600000, "data": data}


def reply(json: Any, status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, json=json)


def test_a_row_in_common_terms() -> None:
    (row,) = VENUE.read_withdrawals(body([ROW]))
    assert (row.withdrawal_id, row.client_id, row.coin) == ("1083832260799930368", "c1", "USDT")
    assert (row.amount, row.fee, row.state, row.applied_at) == (Decimal(10), Decimal("0.5"), RowState.DONE, NOW)
    assert (row.tx_id, row.internal, VENUE.network_code(str(row.network))) == (HASH, False, "ERC20")
    assert VENUE.arriving(row) == Decimal("9.5")


def test_a_deposit_keeps_its_tag_as_text() -> None:
    (row,) = VENUE.read_deposits(body([DEPOSIT]))
    assert (row.deposit_id, row.network, row.memo, row.state) == (DEPOSIT["orderId"], "XRP", "007", RowState.DONE)
    assert (row.amount, row.inserted_at) == (Decimal("9.5"), NOW)


@pytest.mark.parametrize(
    ("fee", "read"),
    [("-1.0000000", "1"), ("1.5", "1.5"), ("0", "0"), ("-0", "0"), ("", "0"), (None, "0"), (" -0.25 ", "0.25")],
)
def test_a_fee_has_no_sign(fee: Any, read: str) -> None:
    (row,) = VENUE.read_withdrawals(body([{**ROW, "fee": fee}]))
    assert row.fee == Decimal(read)
    assert VENUE.arriving(row) == row.amount - row.fee


@pytest.mark.parametrize("fee", ["--1", "-x", "-NaN", "-Infinity", "1e9999"])
def test_what_is_no_fee_is_none(fee: str) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(body([{**ROW, "fee": fee, "size": "x" if fee == "1e9999" else "10"}]))


@pytest.mark.parametrize("size", ["10", "9.5", "10.5"])
def test_net_gross_and_total_are_the_same_withdrawal(size: str) -> None:
    """Nobody documents which of them a row shows: none of them may be taken for another withdrawal."""
    (row,) = VENUE.read_withdrawals(body([{**ROW, "size": size}]))
    assert differences(ORDER, row, VENUE) == ()
    assert differences(replace(ORDER, amount="10.6"), row, VENUE) == ("amount",)


@pytest.mark.parametrize(
    ("status", "means"),
    [
        *((word, RowState.PENDING) for word in ("pending", "Pending", "pending_review", "first_audit", "recheck")),
        *((word, RowState.PENDING) for word in ("wallet_processing", "risk_audit", "pre_success", "dealing")),
        *((word, RowState.HELD) for word in ("wallet_fail", "pending_review_fail", "Pending_fail", "frozen_fail")),
        ("success", RowState.DONE),
        ("fail", RowState.FAILED),
        ("reject", RowState.FAILED),
        ("cancel", RowState.CANCELLED),
    ],
)
def test_withdrawal_states(status: str, means: RowState) -> None:
    (row,) = VENUE.read_withdrawals(body([{**ROW, "status": status}]))
    assert (row.state, row.raw_status, row.status_listed) == (means, status, True)


@pytest.mark.parametrize(
    ("status", "means"),
    [
        *((word, RowState.PENDING) for word in ("pending", "deposit_check", "pre_success", "wait_small_check")),
        *((word, RowState.HELD) for word in ("deposit_check_fail", "recharge_fail_risk_wait_to_system")),
        ("success", RowState.DONE),
        ("fail", RowState.FAILED),
    ],
)
def test_deposit_states_are_another_table(status: str, means: RowState) -> None:
    (row,) = VENUE.read_deposits(body([{**DEPOSIT, "status": status}]))
    assert (row.state, row.status_listed) == (means, True)


@given(st.text(max_size=8) | st.sampled_from(["completed", "failed", "returned", "cancelled"]))
def test_an_unlisted_state_is_pending_and_marked(status: str) -> None:
    (moved,) = VENUE.read_withdrawals(body([{**ROW, "status": status}]))
    (came,) = VENUE.read_deposits(body([{**DEPOSIT, "status": status}]))
    if status.lower() not in WITHDRAWAL_STATES:
        assert (moved.state, moved.status_listed) == (RowState.PENDING, False)
    if status.lower() not in DEPOSIT_STATES:
        assert (came.state, came.status_listed) == (RowState.PENDING, False)


@pytest.mark.parametrize("dest", ["internal_transfer", "inner_address_transfer"])
def test_a_transfer_inside_the_venue_has_no_transaction(dest: str) -> None:
    (row,) = VENUE.read_withdrawals(body([{**ROW, "dest": dest, "tradeId": ROW["orderId"]}]))
    assert row.internal


@pytest.mark.parametrize("asked", [body([ROW], "40725"), {"data": [ROW]}, {"code": "00000"}, [], None, body({}), "x"])
def test_what_is_no_whole_answer_is_none(asked: Any) -> None:
    for read in (VENUE.read_withdrawals, VENUE.read_deposits, VENUE.read_balances):
        with pytest.raises(LookupFailed):
            read(asked)


@pytest.mark.parametrize(
    "changes",
    [{"orderId": "0"}, {"orderId": None}, {"size": "-1"}, {"size": None}, {"cTime": "soon"}, {"status": None}],
)
def test_a_row_that_lacks_what_decides_is_no_row(changes: dict[str, Any]) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(body([{**ROW, **changes}]))
    with pytest.raises(LookupFailed):
        VENUE.read_deposits(body([{**DEPOSIT, **changes}]))


def test_the_request_names_everything_and_carries_only_text() -> None:
    call = VENUE.submit(Order("XRP", "XRP", "rDest", "007", "0.0000001", "c1"), NOW)
    assert call.method == "privateSpotPostV2SpotWalletWithdrawal"
    assert dict(call.params) == {
        "coin": "XRP",
        "transferType": "on_chain",
        "chain": "XRP",
        "address": "rDest",
        "size": "0.0000001",
        "tag": "007",
        "clientOid": "c1",
    }
    assert call.moves_money
    assert "tag" not in VENUE.submit(ORDER, NOW).params


@pytest.mark.parametrize(
    ("coin", "network", "chain"),
    [
        ("ETH", "ERC20", "ETH"),
        ("USDC", "ERC20", "ERC20"),
        ("TRX", "TRC20", "TRX"),
        ("ETH", "ArbitrumOne", "ArbitrumOne"),
    ],
)
def test_a_chains_own_coin_is_asked_for_under_the_chains_own_name(coin: str, network: str, chain: str) -> None:
    """One name in the inventory serves the coin and the tokens of a chain."""
    order = replace(ORDER, coin=coin, network=network)
    assert VENUE.submit(order, NOW).params["chain"] == chain
    assert VENUE.deposit_address(coin, network).params["chain"] == chain
    listed = body([{"coin": coin, "chains": [{**CHAIN, "chain": chain}]}])
    assert VENUE.read_networks([listed], coin)[0].network == network
    (row,) = VENUE.read_withdrawals(body([{**ROW, "coin": coin, "chain": chain.lower()}]))
    assert differences(order, row, VENUE) == ()


def test_a_beneficiary_is_added_in_the_venues_own_names_and_no_others() -> None:
    call = VENUE.submit(ORDER, NOW)
    told = VENUE.with_beneficiary(call, {"memberCode": "korbit", "identityType": "user", "firstName": "A"})
    assert told.params == {**call.params, "memberCode": "korbit", "identityType": "user", "firstName": "A"}
    assert told.moves_money
    for name in ("size", "address", "name"):
        with pytest.raises(InvalidInput, match=f"does not ask for {name}"):
            VENUE.with_beneficiary(call, {name: "x"})
    assert VENUE.travel_rule(ORDER) is None


@given(st.text(min_size=1, max_size=200))
def test_our_ids_are_short_enough(key: str) -> None:
    assert len(VENUE.client_id(key)) <= 50
    assert VENUE.client_id(key).isalnum()


def test_every_look_at_a_history_has_both_times() -> None:
    window = Window(NOW - timedelta(seconds=1), NOW)
    times = {"startTime": "1774785599000", "endTime": "1774785600000"}
    assert VENUE.withdrawal_by_client_id("c1", window).params == {"clientOid": "c1", **times}
    assert VENUE.withdrawals_by_ids(["7"], "ETH", window).params == {"orderId": "7", **times}
    for ask in (VENUE.withdrawals, VENUE.deposits):
        assert ask("ETH", window, None).params == {"coin": "ETH", "limit": "100", **times}
        assert ask(None, window, "17").params == {"limit": "100", "idLessThan": "17", **times}
    assert max(VENUE.history_window, VENUE.client_id_window) < timedelta(days=90)


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_every_listed_code_is_a_refusal(code: str) -> None:
    for status in (200, 400, 401, 403):
        found = decide(reply(body(None, code, "no"), status), VENUE.submit_rules)
        assert (found.verdict, found.confirm_first) == (Verdict.REJECTED, code in CONFIRM_FIRST)
    assert decide(reply(body(None, code, "no"), 500), VENUE.submit_rules).verdict is Verdict.UNKNOWN
    assert decide(reply(body({"orderId": "7"}, code, "no")), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_what_a_copy_of_a_taken_request_may_be_told_is_confirmed_first_or_no_refusal() -> None:
    """Too late, too little left, too often, over the limit of the day, used id."""
    assert {"40004", "40008", "43012"} <= CONFIRM_FIRST < REFUSALS
    assert not REFUSALS & ({"429", "13001", "13004", "13212", "40010", "40015", "40725", "40937", "43113"} | DUPLICATES)


@given(st.integers(1, 99_999).map(str) | st.text(max_size=6))
def test_no_other_code_is_one(code: str) -> None:
    if code not in REFUSALS | DUPLICATES:
        assert decide(reply(body(None, code, "no")), VENUE.submit_rules).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("code", [*sorted(DUPLICATES), "99999", "43111"])
def test_a_repeat_is_looked_up_and_never_a_refusal(code: str) -> None:
    words = "no" if code in DUPLICATES else "clientOid Duplicate"
    for status in (200, 400):
        assert decide(reply(body(None, code, words), status), VENUE.submit_rules).verdict is Verdict.DUPLICATE


@pytest.mark.parametrize(
    "data", [[], {}, {"orderId": ""}, {"orderId": 0}, {"clientOid": "c1"}, [{"orderId": "1"}], "7"]
)
def test_success_without_one_id_is_unknown(data: Any) -> None:
    assert decide(reply(body(data)), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_success_with_an_id_is_acceptance() -> None:
    accepted = decide(reply(body({"orderId": "888291686266343424", "clientOid": "c1"})), VENUE.submit_rules)
    assert (accepted.verdict, accepted.withdrawal_id) == (Verdict.ACCEPTED, "888291686266343424")
    no_code = {"msg": "success", "data": {"orderId": "888291686266343424"}}
    assert decide(reply(no_code), VENUE.submit_rules).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("code", "kind"), sorted(ACCESS_CODES.items()))
def test_what_keeps_us_out_is_told_in_the_venues_words(code: str, kind: Access) -> None:
    refusal = access_refusal("desk", VENUE, reply(body(None, code, "because"), 400))
    assert refusal is not None
    assert (refusal.kind, refusal.words) == (kind, "because")
    assert access_refusal("desk", VENUE, reply(body([]))) is None


def test_an_account_that_was_moved_to_the_unified_kind_is_named_so() -> None:
    words = "You are in Unified Account mode, and the Classic Account API is not supported at this time"
    refusal = access_refusal("desk", VENUE, reply(body(None, "40085", words), 400))
    assert refusal is not None
    assert refusal.invalid is not None
    assert refusal.invalid.field == "venues.desk.wire"
    assert "Unified Account" in str(refusal)


@pytest.mark.parametrize(
    ("rights", "may"), [(["stor", "wwow"], True), (["stor", "wtow"], False), ([], False), ("wwow", False)]
)
def test_the_key_may_withdraw_by_its_own_word(rights: Any, may: bool) -> None:
    assert (VENUE.read_permission_problem(body({"authorities": rights})) is None) is may


def test_times_of_the_venue() -> None:
    assert VENUE.read_server_time(body({"serverTime": "1774785600000"})) == NOW
    assert (
        VENUE.read_answer_time({**body([]), "requestTime": "1774785600000"}) == VENUE.read_answer_time(body([])) == NOW
    )
    for without in ({"code": "00000"}, {"requestTime": None}, {"requestTime": ""}, []):
        assert VENUE.read_answer_time(without) is None
    with pytest.raises(LookupFailed):
        VENUE.read_answer_time({"requestTime": "soon"})


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, "0.00000001"),
        ({"withdrawMinScale": "2"}, "0.01"),
        ({"withdrawMinScale": "0"}, "1"),
        ({"withdrawStep": "0.5"}, "0.5"),
        ({"withdrawStep": "0.001", "withdrawMinScale": "2"}, "0.01"),
    ],
)
def test_a_step_is_the_coarser_of_two(changes: dict[str, str], step: str) -> None:
    listed = body([{"coin": "ETH", "chains": [{**CHAIN, **changes}]}, {"coin": "BTC", "chains": [CHAIN]}])
    (rules,) = VENUE.read_networks([listed], "ETH")
    assert (rules.network, rules.step, rules.fee) == ("ERC20", Decimal(step), Decimal("0.001"))
    assert (rules.minimum, rules.maximum, rules.memo_required) == (Decimal("0.01"), None, False)
    assert VENUE.read_networks([listed], "SOL") == ()


@pytest.mark.parametrize(
    ("changes", "enabled"),
    [
        ({}, True),
        ({"withdrawable": True}, True),
        ({"withdrawable": "false"}, False),
        ({"withdrawable": None}, False),
    ],
)
def test_a_network_is_open_only_by_its_word(changes: dict[str, Any], enabled: bool) -> None:
    (rules,) = VENUE.read_networks([body([{"coin": "eth", "chains": [{**CHAIN, **changes}]}])], "ETH")
    assert rules.withdraw_enabled is enabled


def test_what_a_coin_burns_counts_as_a_fee() -> None:
    (rules,) = VENUE.read_networks([body([{"coin": "ETH", "chains": [{**CHAIN, "extraWithdrawFee": "0.1"}]}])], "ETH")
    assert rules.fee_of(Decimal(10)) == Decimal("1.001")


def test_a_tag_is_needed_where_the_venue_says_so() -> None:
    tagged = {**CHAIN, "chain": "XRP", "needTag": "true"}
    (rules,) = VENUE.read_networks([body([{"coin": "XRP", "chains": [tagged]}])], "XRP")
    assert (rules.memo_required, rules.memo_allowed) == (True, True)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("erc20", "ERC20"),
        ("ETH", "ERC20"),
        ("trc20", "TRC20"),
        ("arbitrumone", "ArbitrumOne"),
        ("Newchain", "Newchain"),
    ],
)
def test_a_chain_has_one_code_however_it_is_written(name: str, code: str) -> None:
    assert VENUE.network_code(name) == VENUE.network_code(VENUE.network_code(name)) == code


def test_the_spot_wallet() -> None:
    row = {"coin": "usdt", "available": "1.5", "frozen": "2", "locked": "0.25", "limitAvailable": "0"}
    (held,) = VENUE.read_balances(body([row]))
    assert (held.coin, held.free, held.locked) == ("USDT", Decimal("1.5"), Decimal("2.25"))


MARGIN = {"coin": "USDT", "totalAmount": "12", "available": "2", "frozen": "0.5", "borrow": "0.1", "interest": "0.05"}
FUTURES = {"marginCoin": "USDT", "locked": "0", "available": "2", "accountEquity": "5"}


@pytest.mark.parametrize(
    ("wallet", "rows", "free", "locked"),
    [
        ("funding", [{"coin": "USDT", "available": "1", "frozen": "2"}], "1", "2"),
        ("crossed_margin", [MARGIN], "1.85", "0.5"),
        ("crossed_margin", [{**MARGIN, "borrow": "9"}], "0", "0.5"),
        ("isolated_margin", [{**MARGIN, "symbol": "BTCUSDT"}, {**MARGIN, "symbol": "ETHUSDT"}], "3.7", "1.0"),
        ("usdt_futures", [FUTURES], "2", "3"),
        ("usdc_futures", [{**FUTURES, "accountEquity": "1"}], "2", "0"),
        ("coin_futures", [{**FUTURES, "accountEquity": "-3"}], "2", "0"),
    ],
)
def test_other_wallets_tell_what_is_owned(wallet: str, rows: list[dict[str, str]], free: str, locked: str) -> None:
    (held,) = VENUE.read_other_wallet(wallet, body(rows))
    assert (held.coin, held.free, held.locked) == ("USDT", Decimal(free), Decimal(locked))
    assert wallet in VENUE.other_wallets()
    assert VENUE.read_other_wallet(wallet, body([])) == ()


def test_an_account_that_was_never_opened_is_no_refusal_and_no_access_problem() -> None:
    assert VENUE.no_wallet_codes == {"40807", "50021"}
    assert not VENUE.no_wallet_codes & (REFUSALS | DUPLICATES | set(ACCESS_CODES))


def test_other_wallets_are_asked_for_by_reading_alone() -> None:
    calls = VENUE.other_wallets()
    assert VENUE.wallet not in calls
    assert all("Get" in call.method and not call.moves_money for call in calls.values())


@pytest.mark.parametrize(("chain", "network"), [("ERC20", "ERC20"), ("erc20", "ERC20"), ("", "ERC20"), (None, "ERC20")])
def test_our_deposit_address(chain: Any, network: str) -> None:
    found = {"coin": "USDT", "address": "0x1", "chain": chain, "tag": None, "url": ""}
    (address,) = VENUE.read_deposit_addresses(body(found), "ERC20")
    assert (address.network, address.address, address.memo) == (network, "0x1", None)
