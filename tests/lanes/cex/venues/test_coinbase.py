"""Coinbase's adapter by itself: rows in the documented shape, requests, pages, and every code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import RiskControls
from qtg_dagster.lanes.cex.matching import differences
from qtg_dagster.lanes.cex.outcome import Verdict, decide
from qtg_dagster.lanes.cex.record_pages import History, PageReader
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Access, Call, Order, RowState, Window
from qtg_dagster.lanes.cex.venues.coinbase import REFUSALS, VENUE
from qtg_dagster.lanes.cex.venues.coinbase.records import STATES
from qtg_dagster.lanes.cex.withdrawal_preflight import check_ceiling_holds

ADDRESS = "0x" + "ab" * 20
ID = "a1794ecf-5693-45fa-80cf-ef731748ed82"
IDEM = VENUE.client_id("n1:1")
HASH = "0x" + "1f" * 32
ORDER = Order("USDC", "ethereum", ADDRESS, None, "10", IDEM)
NOW = datetime(2026, 1, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(days=1), NOW)
LAST = {"next_uri": None, "next_starting_after": None}


def money(amount: str, currency: str = "USDC") -> dict[str, str]:
    return {"amount": amount, "currency": currency}


def sent(network: dict[str, Any] | None = None, **change: Any) -> dict[str, Any]:
    """A send of 10, for which the account gave 14."""
    told = {
        "status": "pending",
        "network_name": "ethereum",
        "transaction_fee": money("4.00"),
        "transaction_amount": money("10.00"),
    }
    row = {
        "id": ID,
        "type": "send",
        "status": "pending",
        "amount": money("-14.00"),
        "created_at": "2026-01-11T01:27:31Z",
        "network": {**told, **(network or {})},
        "to": {"resource": "address", "address": ADDRESS},
        "idem": IDEM,
    }
    return {**row, **change}


def came(**change: Any) -> dict[str, Any]:
    row = sent({"hash": HASH}, amount=money("14.00"), **change)
    return {name: value for name, value in row.items() if name not in ("idem", "to")}


def page(*rows: dict[str, Any], **pages: Any) -> dict[str, Any]:
    return {"pagination": {**LAST, **pages}, "data": list(rows)}


def read(row: dict[str, Any]) -> Any:
    (found,) = VENUE.read_withdrawals(page(row))
    return found


def test_a_pending_send_is_a_withdrawal_without_a_transaction() -> None:
    row = read(sent())
    assert (row.withdrawal_id, row.client_id, row.tx_id) == (ID, IDEM, None)
    assert (row.amount, row.fee, row.state) == (Decimal(10), Decimal(4), RowState.PENDING)
    assert (row.network, row.address, row.memo, row.internal) == ("ethereum", ADDRESS, None, False)
    assert row.applied_at == datetime(2026, 1, 11, 1, 27, 31, tzinfo=UTC)
    assert differences(ORDER, row, VENUE) == ()
    assert VENUE.read_deposits(page(sent())) == ()
    assert read(sent({"hash": HASH}, status="completed")).tx_id == HASH


@pytest.mark.parametrize(
    ("network", "amount", "fee"),
    [
        ({"transaction_amount": None}, "10", "4"),
        ({"transaction_fee": None}, "10", "0"),
        ({"transaction_amount": None, "transaction_fee": None}, "14", "0"),
        ({"transaction_amount": None, "transaction_fee": money("0.001", "ETH")}, "14", "0"),
        ({"transaction_fee": money("0.001", "ETH")}, "10", "0"),
    ],
)
def test_what_arrives_is_told_or_is_the_rest_beside_a_fee_in_the_same_coin(
    network: dict[str, Any], amount: str, fee: str
) -> None:
    row = read(sent(network))
    assert (row.amount, row.fee) == (Decimal(amount), Decimal(fee))


def test_a_fee_above_the_whole_is_no_row() -> None:
    with pytest.raises(LookupFailed, match="MALFORMED"):
        read(sent({"transaction_amount": None, "transaction_fee": money("14.01")}))


@pytest.mark.parametrize("status", [*STATES, "evaporated"])
def test_every_status_means_what_is_documented_and_any_other_is_pending(status: str) -> None:
    row = read(sent(status=status))
    assert (row.state, row.status_listed) == (STATES.get(status, RowState.PENDING), status in STATES)
    done = {"failed": RowState.FAILED, "expired": RowState.FAILED, "canceled": RowState.CANCELLED}
    assert (row.state in (RowState.FAILED, RowState.CANCELLED)) is (status in done)
    (deposit,) = VENUE.read_deposits(page(came(status=status)))
    assert (deposit.state is RowState.DONE) is (status == "completed")


def test_sends_and_deposits_are_told_by_their_sign_and_type() -> None:
    others = [
        sent(id=kind, type=kind, amount=money(amount), idem=None)
        for kind in ("buy", "sell", "trade", "advanced_trade_fill", "fiat_withdrawal", "vault_withdrawal", "transfer")
        for amount in ("-1", "1")
    ]
    body = page(sent(), came(id="d1"), came(id="d2", type="receive"), came(id="d3", type="tx"), *others)
    assert [row.withdrawal_id for row in VENUE.read_withdrawals(body)] == [ID]
    assert [(row.deposit_id, row.amount, row.tx_id) for row in VENUE.read_deposits(body)] == [
        (key, Decimal(14), HASH) for key in ("d1", "d2", "d3")
    ]


def test_what_carries_our_id_is_a_withdrawal_whatever_its_type_is_so_far() -> None:
    assert read(sent(type="tx")).client_id == IDEM


def test_a_send_to_another_customer_has_no_transaction_and_is_internal() -> None:
    row = read(sent(to={"resource": "user", "id": "u1"}) | {"network": {"status": "off_blockchain"}})
    assert (row.internal, row.tx_id, row.address, row.network) == (True, None, None, None)


@pytest.mark.parametrize(
    "to",
    [
        {"address_info": {"address": ADDRESS, "destination_tag": "007"}},
        {"address": ADDRESS, "destination_tag": "007"},
    ],
)
def test_a_tag_is_text_wherever_it_stands(to: dict[str, Any]) -> None:
    row = read(sent(to=to))
    assert (row.address, row.memo) == (ADDRESS, "007")
    (given,) = VENUE.read_deposit_addresses(page({"address": ADDRESS, "network": "stellar", **to}), "stellar")
    assert (given.network, given.address, given.memo) == ("stellar", ADDRESS, "007")


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": "0"},
        {"amount": None},
        {"amount": money("-much")},
        {"amount": money("-Infinity")},
        {"status": None},
        {"created_at": "2026-01-11T01:27:31"},
    ],
)
def test_a_row_that_lacks_what_it_must_have_fails_the_page(change: dict[str, Any]) -> None:
    with pytest.raises(LookupFailed, match="MALFORMED"):
        VENUE.read_withdrawals(page(sent(**change)))


@pytest.mark.parametrize(
    ("pages", "after"),
    [
        (LAST, None),
        ({"next_uri": None}, None),
        ({"next_uri": "/v2/accounts/ETH/transactions?limit=100&starting_after=x1"}, "x1"),
        ({"next_uri": None, "next_starting_after": "x2"}, "x2"),
    ],
)
def test_a_page_says_where_the_next_one_starts(pages: dict[str, Any], after: str | None) -> None:
    assert VENUE.withdrawal_pages.following({"pagination": pages, "data": []}, [], None) == after


@pytest.mark.parametrize("body", [{}, {"pagination": None}, {"pagination": {}}, {"pagination": []}])
def test_a_page_that_says_nothing_of_the_next_is_no_last_page(body: dict[str, Any]) -> None:
    with pytest.raises(LookupFailed, match="MALFORMED"):
        VENUE.withdrawal_pages.following({"data": [], **body}, [], None)
    with pytest.raises(LookupFailed, match="MALFORMED"):
        VENUE.withdrawal_pages.following(page(next_uri="/v2/accounts?limit=100"), [], None)


async def test_a_page_of_nothing_but_trades_ends_the_reading_when_it_is_old() -> None:
    asked: list[str | None] = []

    def ask(coin: str | None, window: Window, cursor: str | None) -> Call:
        asked.append(cursor)
        return VENUE.withdrawals(coin, window, cursor)

    async def answer(_: Call) -> Any:
        days = len(asked)
        made = (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        trade = sent(id=f"t{days}", type="trade", idem=None, created_at=made)
        return page(trade, next_starting_after=f"t{days}")

    history = History(
        *("withdrawals", ask, VENUE.read_withdrawals, VENUE.withdrawal_pages, lambda row: row),
        unbounded=True,
        newest=VENUE.newest_on_page,
    )
    reader = PageReader(history, answer)
    await reader.read("USDC", WINDOW)
    assert (asked, reader.found) == ([None, "t1"], {})


def test_our_id_is_a_lower_case_uuid_of_version_four_and_always_the_same() -> None:
    assert VENUE.client_id("n1:1") == IDEM != VENUE.client_id("n1:2")


@given(st.text())
def test_whatever_the_key_our_id_has_version_and_variant(key: str) -> None:
    made = VENUE.client_id(key)
    assert made == made.lower() == str(UUID(made))
    assert (UUID(made).version, made[14], made[19] in "89ab") == (4, "4", True)


def test_a_withdrawal_is_one_request_to_the_coins_account() -> None:
    call = VENUE.submit(ORDER, NOW)
    assert (call.method, call.moves_money) == ("v2PrivatePostAccountsAccountIdTransactions", True)
    assert call.params == {
        "account_id": "USDC",
        "type": "send",
        "to": ADDRESS,
        "amount": "10",
        "currency": "USDC",
        "network": "ethereum",
        "idem": IDEM,
    }
    told = VENUE.with_beneficiary(call, {"beneficiary_name": "Wilhelmina"})
    assert told.objects == {"travel_rule_data": {"beneficiary_name": "Wilhelmina"}}
    assert (told.params, told.moves_money) == (call.params, True)


def test_a_record_is_one_coins_and_takes_no_times() -> None:
    for ask in (VENUE.withdrawals, VENUE.deposits):
        first, second = ask("ETH", WINDOW, None), ask("ETH", WINDOW, "x1")
        assert first.params == {"account_id": "ETH", "limit": "100", "order": "desc"}
        assert second.params == {**first.params, "starting_after": "x1"}


def reply(body: Any, status: int = 400) -> RawReply:
    return RawReply(sent=True, status=status, json=body)


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_a_listed_code_refuses_and_what_a_copy_may_get_is_looked_up(code: str) -> None:
    outcome = decide(reply({"errors": [{"id": code, "message": "no"}]}), VENUE.submit_rules)
    assert outcome.verdict is Verdict.REJECTED
    assert outcome.confirm_first is (code not in {"invalid_scope", "param_required"})


@pytest.mark.parametrize(
    "body",
    [
        {"errors": [{"id": "internal_server_error", "message": "?"}]},
        {"errors": [{"id": "not_found", "message": "?"}]},
        {"errors": [{"id": "validation_error"}, {"id": "internal_server_error"}]},
        {"errors": []},
        {"error": "invalid_request", "error_description": "?"},
        {"errors": [{"id": "invalid_scope"}], "data": {"id": ID}},
        {"data": {"id": None}},
        {"data": []},
        [],
    ],
)
def test_any_other_answer_decides_nothing(body: Any) -> None:
    for status in (200, 400):
        assert decide(reply(body, status), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_an_answer_with_an_id_is_an_acceptance_under_success_alone() -> None:
    body = {"data": sent()}
    assert decide(reply(body, 201), VENUE.submit_rules).withdrawal_id == ID
    for status in (400, 500, 409):
        assert decide(reply(body, status), VENUE.submit_rules).verdict is Verdict.UNKNOWN


def test_a_token_that_is_too_old_is_a_matter_of_the_clock() -> None:
    codes = VENUE.access_codes
    for message, kind in (("request timestamp expired", Access.CLOCK), ("?", Access.KEY_IP_OR_PERMISSION)):
        found = VENUE.read_error({"errors": [{"id": "authentication_error", "message": message}]})
        assert codes[str(found.error_code)] is kind


ACCOUNT = {"data": {"currency": {"code": "USDC", "exponent": 6}}}


def test_an_account_need_not_say_that_it_lets_withdraw() -> None:
    rules = VENUE.read_networks([ACCOUNT], "USDC")
    assert {(one.withdraw_enabled, one.step, one.fee_known) for one in rules} == {(True, Decimal("0.000001"), False)}
    closed = {"data": {**ACCOUNT["data"], "allow_withdrawals": False}}
    assert not any(one.withdraw_enabled for one in VENUE.read_networks([closed], "USDC"))
    with pytest.raises(LookupFailed, match="MALFORMED"):
        VENUE.read_networks([ACCOUNT], "ETH")


def test_no_ceiling_on_fees_is_let_pass_where_no_fee_is_known() -> None:
    rules = VENUE.read_networks([ACCOUNT], "USDC")[0]
    withdrawal = cast("Any", SimpleNamespace(account=SimpleNamespace(key="coinbase_main")))
    check_ceiling_holds(withdrawal, rules, RiskControls())
    with pytest.raises(InvalidInput, match="coinbase_main") as refused:
        check_ceiling_holds(withdrawal, rules, RiskControls(max_fee="1"))
    assert refused.value.field == "risk_controls.max_fee"


@pytest.mark.parametrize(("view", "transfer"), [(True, True), (True, False), (False, True)])
def test_a_key_has_to_view_and_transfer(view: bool, transfer: bool) -> None:
    problem = VENUE.read_permission_problem({"can_view": view, "can_transfer": transfer, "can_trade": False})
    assert (problem is None) is (view and transfer)


def test_what_arrives_is_told_to_the_last_digit() -> None:
    whole = "123456789012.123456789012345678"
    network = {"network_name": "ethereum", "transaction_fee": {"amount": "0.000000000000000001", "currency": "ETH"}}
    row = {"id": "1", "type": "send", "status": "pending", "amount": {"amount": f"-{whole}", "currency": "ETH"}}
    (found,) = VENUE.read_withdrawals({"data": [{**row, "network": network}]})
    assert str(found.amount) == "123456789012.123456789012345677"
