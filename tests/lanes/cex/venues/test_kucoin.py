"""KuCoin's adapter: what goes onto the wire and what its rows mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.matching import amount_agrees
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Access, FeeRule, Order, RowState, Window
from qtg_dagster.lanes.cex.venues.kucoin import ACCESS_CODES, REFUSALS, VENUE
from qtg_dagster.lanes.cex.venues.kucoin.records import (
    DEPOSIT_STATES,
    RETURN_STATES,
    WITHDRAWAL_STATES,
    is_made_up,
)

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(seconds=1), NOW)
HASH = "12" * 32
ROW = {
    "id": "5c2dc64e03aa675aa263f1ac",
    "address": "0x" + "ab" * 20,
    "memo": "",
    "currency": "ETH",
    "chain": "eth",
    "amount": "1.0000000",
    "fee": "0.0100000",
    "walletTxId": "0x" + HASH,
    "isInner": False,
    "status": "SUCCESS",
    "createdAt": 1774785600000,
    "updatedAt": 1774785604000,
    "remark": "c1",
}
DEPOSIT = {
    "address": "rDest",
    "memo": "007",
    "amount": "9.5",
    "fee": "0.0001",
    "currency": "XRP",
    "chain": "xrp",
    "isInner": False,
    "walletTxId": f"{HASH}@rDest",
    "status": "SUCCESS",
    "createdAt": 1774785600000,
    "updatedAt": 1774785604000,
    "remark": "",
}


def body(*rows: dict[str, Any], **envelope: Any) -> dict[str, Any]:
    page = {"currentPage": 1, "pageSize": 500, "totalNum": len(rows), "totalPage": 1, "items": list(rows)}
    return {"code": "200000", "data": page | envelope}


def ok(data: Any) -> dict[str, Any]:
    return {"code": "200000", "data": data}


def reply(json: Any, status: int = 200) -> RawReply:
    return RawReply(sent=True, status=status, json=json)


def verdict(json: Any, status: int = 200) -> Verdict:
    return decide(reply(json, status), VENUE.submit_rules).verdict


def test_a_row_in_common_terms() -> None:
    (row,) = VENUE.read_withdrawals(body(ROW))
    assert (row.withdrawal_id, row.client_id, row.coin, row.network) == (ROW["id"], "c1", "ETH", "eth")
    assert (row.amount, row.fee, row.state, row.applied_at) == (Decimal(1), Decimal("0.01"), RowState.DONE, NOW)
    assert (row.memo, row.tx_id, row.internal, row.status_listed) == (None, "0x" + HASH, False, True)


def test_a_row_asked_for_by_its_id_has_other_names_for_the_same() -> None:
    told = {name: value for name, value in ROW.items() if name != "chain"}
    told |= {"chainId": "eth", "chainName": "ERC20", "returnStatus": "NOT_RETURN", "returnAmount": None}
    (by_id,), (in_page,) = VENUE.read_withdrawals(ok(told)), VENUE.read_withdrawals(body(ROW))
    assert (by_id.withdrawal_id, by_id.network, by_id.state) == (in_page.withdrawal_id, "eth", RowState.DONE)
    call = VENUE.withdrawals_by_ids(["5c2d"], "ETH", WINDOW)
    assert call.unlisted is not None
    assert (call.unlisted.path, call.unlisted.verb, dict(call.params)) == (
        "withdrawals/{withdrawalId}",
        "GET",
        {"withdrawalId": "5c2d"},
    )


@pytest.mark.parametrize(
    ("hidden", "shows"),
    [
        ({"remark": ""}, {"client_id": None}),
        ({"remark": None}, {"client_id": None}),
        ({"chain": ""}, {"network": None}),
        ({"address": None}, {"address": None}),
        ({"createdAt": None}, {"applied_at": None}),
        ({"walletTxId": None}, {"tx_id": None}),
        ({"walletTxId": f"{HASH}@0xabab"}, {"tx_id": HASH}),
        ({"walletTxId": "@0xabab"}, {"tx_id": None}),
        ({"isInner": True, "walletTxId": None}, {"internal": True, "tx_id": None}),
        ({"chain": "TRC20"}, {"network": "trx"}),
        ({"memo": "007"}, {"memo": "007"}),
        ({"fee": None}, {"fee": Decimal(0)}),
        ({"amount": 1}, {"amount": Decimal(1)}),
    ],
)
def test_what_a_row_hides_or_words_differently(hidden: dict[str, Any], shows: dict[str, Any]) -> None:
    (row,) = VENUE.read_withdrawals(body(ROW | hidden))
    assert {name: getattr(row, name) for name in shows} == shows


def test_a_row_without_an_id_gets_one_that_stays_and_is_looked_for_in_the_record() -> None:
    unnamed = {name: value for name, value in ROW.items() if name != "id"}
    (row,) = VENUE.read_withdrawals(body(unnamed))
    (later,) = VENUE.read_withdrawals(body(unnamed | {"status": "FAILURE", "walletTxId": None, "amount": "1"}))
    (other,) = VENUE.read_withdrawals(body(unnamed | {"remark": "c2"}))
    assert is_made_up(row.withdrawal_id)
    assert row.withdrawal_id == later.withdrawal_id != other.withdrawal_id
    asked = VENUE.withdrawals_by_ids([row.withdrawal_id], "ETH", WINDOW)
    assert asked == VENUE.withdrawals("ETH", WINDOW, None)
    assert not is_made_up(str(ROW["id"]))


@pytest.mark.parametrize(
    ("status", "means"),
    [
        ("REVIEW", RowState.PENDING),
        ("PROCESSING", RowState.PENDING),
        ("WALLET_PROCESSING", RowState.PENDING),
        ("SUCCESS", RowState.DONE),
        ("FAILURE", RowState.HELD),  # whether the funds are back is told elsewhere
    ],
)
def test_withdrawal_states(status: str, means: RowState) -> None:
    (row,) = VENUE.read_withdrawals(body({**ROW, "status": status}))
    assert (row.state, row.status_listed) == (means, True)


@pytest.mark.parametrize(
    ("status", "returned", "beside", "means"),
    [
        ("FAILURE", "SUCCESS", {}, RowState.FAILED),
        ("FAILURE", "SUCCESS", {"returnAmount": "1.01", "returnCurrency": "ETH"}, RowState.FAILED),
        ("FAILURE", "SUCCESS", {"returnAmount": "1"}, RowState.FAILED),
        ("FAILURE", "SUCCESS", {"returnAmount": "0.5"}, RowState.HELD),
        ("FAILURE", "SUCCESS", {"returnAmount": "0"}, RowState.HELD),
        ("FAILURE", "SUCCESS", {"returnAmount": "1.01", "returnCurrency": "KCS"}, RowState.HELD),
        ("FAILURE", "PROCESSING", {}, RowState.PENDING),
        ("FAILURE", "NOT_RETURN", {}, RowState.HELD),
        ("SUCCESS", "NOT_RETURN", {}, RowState.DONE),
        ("SUCCESS", "NOT_RETURN", {"returnAmount": None, "returnCurrency": "KCS"}, RowState.DONE),
        ("SUCCESS", "PROCESSING", {}, RowState.HELD),
        ("SUCCESS", "SUCCESS", {"returnAmount": "1"}, RowState.HELD),
        *((status, "NOT_RETURN", {}, RowState.PENDING) for status in ("REVIEW", "PROCESSING", "WALLET_PROCESSING")),
    ],
)
def test_a_failure_is_one_only_when_all_of_it_came_back(
    status: str, returned: str, beside: dict[str, Any], means: RowState
) -> None:
    (row,) = VENUE.read_withdrawals(ok({**ROW, "status": status, "returnStatus": returned, **beside}))
    assert (row.state, row.status_listed) == (means, True)


@pytest.mark.parametrize(
    ("status", "means"),
    [
        ("PROCESSING", RowState.PENDING),
        ("WAIT_TRM_MGT", RowState.HELD),
        ("SUCCESS", RowState.DONE),
        ("FAILURE", RowState.FAILED),
    ],
)
def test_deposit_states_are_another_table(status: str, means: RowState) -> None:
    (row,) = VENUE.read_deposits(body({**DEPOSIT, "status": status}))
    assert (row.state, row.status_listed) == (means, True)


@given(st.text(max_size=8), st.text(min_size=1, max_size=8).filter(str.strip))
def test_an_unlisted_word_is_pending_and_marked(word: str, returned: str) -> None:
    if word not in WITHDRAWAL_STATES:
        (moved,) = VENUE.read_withdrawals(body({**ROW, "status": word}))
        assert (moved.state, moved.status_listed) == (RowState.PENDING, False)
    if word not in DEPOSIT_STATES:
        (came,) = VENUE.read_deposits(body({**DEPOSIT, "status": word}))
        assert (came.state, came.status_listed) == (RowState.PENDING, False)
    for end in ("SUCCESS", "FAILURE"):
        if (end, returned.strip()) not in RETURN_STATES:
            (row,) = VENUE.read_withdrawals(ok({**ROW, "status": end, "returnStatus": returned}))
            assert (row.state, row.status_listed) == (RowState.PENDING, False)


@pytest.mark.parametrize(
    "asked",
    [
        {**body(ROW), "code": "500000"},
        {"data": {"items": [ROW]}},
        {"code": "200000"},
        ok(None),
        ok({}),
        ok([ROW]),
        ok({"items": {}}),
        ok({"items": [1]}),
        ok({"id": "", "status": "SUCCESS"}),
        [],
        None,
        body({**ROW, "currency": None}),
        body({**ROW, "status": None}),
        body({**ROW, "amount": "-1"}),
        body({**ROW, "createdAt": "yesterday"}),
    ],
)
def test_what_is_no_whole_answer_is_none(asked: Any) -> None:
    with pytest.raises(LookupFailed):
        VENUE.read_withdrawals(asked)
    with pytest.raises(LookupFailed):
        VENUE.read_deposits(asked)


def test_a_deposit_keeps_its_tag_as_text_and_loses_the_address_behind_its_hash() -> None:
    (row,) = VENUE.read_deposits(body(DEPOSIT))
    assert (row.memo, row.tx_id, row.network, row.inserted_at) == ("007", HASH, "xrp", NOW)
    (bare,) = VENUE.read_deposits(body(DEPOSIT | {"address": None}))
    assert bare.address == "rDest"


def test_a_deposit_is_told_by_what_it_is() -> None:
    (first,) = VENUE.read_deposits(body(DEPOSIT))
    (again,) = VENUE.read_deposits(body({**DEPOSIT, "status": "PROCESSING", "updatedAt": 1, "amount": "9.50"}))
    assert first.deposit_id == again.deposit_id
    differing = ("currency", "chain", "walletTxId", "address", "memo", "amount", "createdAt")
    changed = {"amount": "9.6", "createdAt": 1774785600001}
    others = {
        VENUE.read_deposits(body({**DEPOSIT, name: changed.get(name, "other")}))[0].deposit_id for name in differing
    }
    assert len(others | {first.deposit_id}) == len(differing) + 1


def test_two_deposits_in_one_transaction_stay_two_however_alike() -> None:
    alike = VENUE.read_deposits(body(DEPOSIT, DEPOSIT, {**DEPOSIT, "amount": "1"}))
    assert len({row.deposit_id for row in alike}) == 3
    assert [row.deposit_id for row in VENUE.read_deposits(body(DEPOSIT, DEPOSIT))] == [
        row.deposit_id for row in alike[:2]
    ]


def test_the_request_names_everything_and_carries_only_text() -> None:
    call = VENUE.submit(Order("XRP", "xrp", "rDest", "007", "0.0000001", "c1"), NOW)
    assert (call.method, call.moves_money) == ("privatePostWithdrawals", True)
    assert dict(call.params) == {
        "currency": "XRP",
        "chain": "xrp",
        "toAddress": "rDest",
        "amount": "0.0000001",
        "withdrawType": "ADDRESS",
        "feeDeductType": "EXTERNAL",
        "remark": "c1",
        "memo": "007",
    }
    assert "memo" not in VENUE.submit(Order("ETH", "eth", "0x", None, "1", "c1"), NOW).params


def test_the_wire_has_the_amount_as_a_decimal_text() -> None:
    import ccxt.async_support as ccxt

    client = ccxt.kucoin({"apiKey": "key", "secret": "secret", "password": "passphrase"})
    call = VENUE.submit(Order("ETH", "eth", "0x", None, "0.0000001", "c1"), NOW)
    signed = client.sign("withdrawals", ["private"], "POST", dict(call.params))
    assert signed["url"].endswith("/api/v3/withdrawals")
    assert '"amount":"0.0000001"' in signed["body"].replace(" ", "")
    asked = VENUE.withdrawals_by_ids(["5c2d"], "ETH", WINDOW)
    assert asked.unlisted is not None
    by_id = client.sign(asked.unlisted.path, [asked.unlisted.api], asked.unlisted.verb, dict(asked.params))
    assert by_id["url"].endswith("/api/v1/withdrawals/5c2d")
    addresses = VENUE.deposit_address("ETH", "eth")
    at = client.sign("deposit-addresses", ["private"], "GET", dict(addresses.params))
    assert at["url"].endswith("/api/v3/deposit-addresses?currency=ETH")


def test_what_was_asked_for_arrives() -> None:
    (row,) = VENUE.read_withdrawals(body(ROW))
    assert VENUE.fee_rule is FeeRule.ON_TOP
    assert VENUE.arriving(row) == Decimal(1)
    assert amount_agrees(Decimal(1), row, VENUE)
    assert not amount_agrees(Decimal("1.01"), row, VENUE)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ERC20", "eth"),
        ("ETH", "eth"),
        ("TRC20", "trx"),
        ("KCC", "kcc"),
        ("BTC", "btc"),
        ("BTC-Segwit", "bech32"),
        ("Arbitrum One", "arbitrum"),
        ("AVAX C-Chain", "avaxc"),
        ("foo", "foo"),
    ],
)
def test_chains_are_ids_in_lower_case(name: str, code: str) -> None:
    assert VENUE.network_code(name) == VENUE.network_code(code) == code


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_every_listed_code_is_a_refusal(code: str) -> None:
    for status in (200, 400, 401, 403):
        found = decide(reply({"code": code, "msg": "no"}, status), VENUE.submit_rules)
        assert (found.verdict, found.confirm_first) == (Verdict.REJECTED, False)
    assert verdict({"code": code, "msg": "no"}, 500) is Verdict.UNKNOWN
    assert verdict({"code": code, "data": {"withdrawalId": "7"}}) is Verdict.UNKNOWN


@pytest.mark.parametrize("code", ["400002", "230003", "260100"])
def test_what_a_copy_of_a_taken_request_gets_too_refuses_nothing(code: str) -> None:
    assert verdict({"code": code, "msg": "no"}) is Verdict.UNKNOWN


@given(st.integers(1, 999_999).map(str) | st.text(max_size=6))
def test_no_other_code_is_one(code: str) -> None:
    if code not in REFUSALS:
        assert verdict({"code": code, "msg": ""}) is Verdict.UNKNOWN


@pytest.mark.parametrize("code", ["408000", "400100", "260210", "429000", "500000", "503000"])
def test_what_may_have_been_taken_is_unknown(code: str) -> None:
    assert verdict({"code": code, "msg": "Network timeout, please try again later"}) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "data", [None, {}, [], [{"withdrawalId": "7"}], {"withdrawalId": ""}, {"withdrawalId": None}, {"withdrawalId": 0}]
)
def test_success_without_an_id_is_unknown(data: Any) -> None:
    assert verdict(ok(data)) is Verdict.UNKNOWN


def test_success_with_an_id_is_acceptance_and_beside_words_it_is_not() -> None:
    accepted = decide(reply(ok({"withdrawalId": "670d"})), VENUE.submit_rules)
    assert (accepted.verdict, accepted.withdrawal_id) == (Verdict.ACCEPTED, "670d")
    assert verdict(ok({"withdrawalId": "670d"}) | {"msg": "success"}) is Verdict.ACCEPTED
    assert verdict(ok({"withdrawalId": "670d"}) | {"msg": "Unsuccessful!"}) is Verdict.UNKNOWN
    assert verdict({"data": {"withdrawalId": "670d"}}) is Verdict.UNKNOWN


CHAIN = {
    "chainName": "ERC20",
    "chainId": "eth",
    "withdrawalMinSize": "0.01",
    "withdrawFeeRate": "0",
    "withdrawalMinFee": "0.001",
    "isWithdrawEnabled": True,
    "withdrawPrecision": 5,
    "maxWithdraw": None,
    "needTag": False,
}


def chains(*rows: dict[str, Any], **coin: Any) -> dict[str, Any]:
    return ok({"currency": "ETH", "precision": 8, "chains": list(rows), **coin})


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        ({}, {"step": Decimal("0.00001"), "maximum": None, "withdraw_enabled": True, "network": "eth"}),
        ({"withdrawPrecision": None}, {"step": Decimal("0.00000001")}),
        ({"maxWithdraw": "5"}, {"maximum": Decimal(5)}),
        ({"isWithdrawEnabled": False}, {"withdraw_enabled": False}),
        ({"needTag": True}, {"memo_required": True, "memo_allowed": True}),
        ({"withdrawFeeRate": "0.01"}, {"fee_rate": Decimal("0.01"), "fee": Decimal("0.001")}),
        ({"chainId": "ARBITRUM"}, {"network": "arbitrum"}),
    ],
)
def test_a_chains_rules(change: dict[str, Any], shows: dict[str, Any]) -> None:
    (rules,) = VENUE.read_networks([chains({**CHAIN, **change})], "ETH")
    assert {name: getattr(rules, name) for name in shows} == shows


def test_coins_without_chains_and_other_coins_have_no_rules() -> None:
    assert VENUE.read_networks([chains(chains=None)], "ETH") == ()
    assert VENUE.read_networks([chains(CHAIN)], "BTC") == ()
    assert VENUE.read_networks([chains({**CHAIN, "chainId": None})], "ETH") == ()


@pytest.mark.parametrize(
    ("quota", "shows"),
    [
        ({}, {"maximum": Decimal(3), "withdraw_enabled": True, "fee": Decimal("0.001"), "minimum": Decimal("0.01")}),
        ({"remainAmount": "100"}, {"maximum": Decimal(5)}),
        ({"isWithdrawEnabled": False}, {"withdraw_enabled": False}),
        ({"withdrawMinFee": "0.002"}, {"fee": Decimal("0.002")}),
        ({"withdrawMinSize": "1"}, {"minimum": Decimal(1)}),
    ],
)
def test_what_is_left_of_the_day_is_a_limit(quota: dict[str, Any], shows: dict[str, Any]) -> None:
    (rules,) = VENUE.read_networks([chains({**CHAIN, "maxWithdraw": "5"})], "ETH")
    told = {"remainAmount": "3", "isWithdrawEnabled": True, "withdrawMinFee": "0.001", "withdrawMinSize": "0.01"}
    found = VENUE.read_terms(ok(told | quota), rules)
    assert {name: getattr(found, name) for name in shows} == shows
    assert dict(VENUE.terms("ETH", "eth").params) == {"currency": "ETH", "chain": "eth"}


@pytest.mark.parametrize(
    ("permission", "may"),
    [
        ("General,Spot,Withdrawal", True),
        ("General, Transfer", True),
        ("General,Spot,Margin,Futures,InnerTransfer,Earn", False),
        ("General", False),
    ],
)
def test_the_right_to_withdraw(permission: str, may: bool) -> None:
    assert (VENUE.read_permission_problem(ok({"permission": permission})) is None) is may


def test_only_the_main_account_pays() -> None:
    row = {"currency": "ETH", "type": "main", "balance": "3", "available": "2", "holds": "1"}
    listed = ok([{**row, "type": "trade", "available": "9"}, row])
    (main,), (trade,) = VENUE.read_balances(listed), VENUE.read_other_wallet("trade", listed)
    assert (main.free, main.locked, trade.free) == (2, 1, 9)
    assert dict(VENUE.balances().params) == {"type": "main"}
    assert {name: dict(call.params) for name, call in VENUE.other_wallets().items()} == {"trade": {"type": "trade"}}


def test_the_venue_is_at_work_when_it_is_open() -> None:
    assert VENUE.read_system_problem(ok({"status": "open", "msg": ""})) is None
    assert "close upgrade" in str(VENUE.read_system_problem(ok({"status": "close", "msg": "upgrade"})))
    assert VENUE.read_system_problem(ok({"status": "cancelonly", "msg": None})) is not None


def test_times_and_addresses() -> None:
    assert VENUE.read_server_time({"code": "200000", "msg": "success", "data": 1774785600000}) == NOW
    rows = [
        {"address": "Tx", "memo": "", "chainId": "trx", "to": "TRADE"},
        {"address": "EQ", "memo": "20", "chainId": "ton", "to": "MAIN"},
    ]
    found = VENUE.read_deposit_addresses(ok(rows), "trx")
    assert [(one.network, one.address, one.memo) for one in found] == [("trx", "Tx", None), ("ton", "EQ", "20")]


@pytest.mark.parametrize("code", sorted(ACCESS_CODES))
def test_a_code_that_keeps_us_out_is_read_from_any_answer(code: str) -> None:
    assert VENUE.read_error({"code": code, "msg": "no"}).error_code == code
    if code in REFUSALS:
        assert VENUE.access_codes[code] is not Access.MAINTENANCE
