"""Binance's wire: spot wallet withdrawals and deposits through `sapi`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import ByOffset
from qtg_dagster.lanes.cex.readings import (
    decimal,
    field,
    ident,
    milliseconds,
    moment,
    rows,
    start_end,
    state_in,
    text,
    utc_text,
)
from qtg_dagster.lanes.cex.venue import (
    Access,
    Call,
    CoinBalance,
    DepositAddress,
    DepositRow,
    FeeRule,
    Identity,
    NetworkRules,
    Order,
    RowState,
    Venue,
    Window,
    WithdrawalRow,
)

# Withdrawals and deposits use the same numbers for different things.
WITHDRAWAL_STATES: Mapping[str, RowState] = {
    "0": RowState.PENDING,  # confirmation mail sent
    "1": RowState.CANCELLED,
    "2": RowState.PENDING,  # awaiting approval
    "3": RowState.FAILED,  # rejected
    "4": RowState.PENDING,  # processing
    "5": RowState.FAILED,
    "6": RowState.DONE,
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    "0": RowState.PENDING,
    "1": RowState.DONE,
    "2": RowState.FAILED,  # rejected
    "6": RowState.LOCKED,  # credited, cannot be withdrawn yet
    "7": RowState.FAILED,  # wrong deposit
    "8": RowState.PENDING,  # waits for the user's confirmation
}
REFUSALS = frozenset(
    {"-1021", "-1022", "-2014", "-2015", "-4001", "-4003", "-4026", "-4104", "-4106"}
    | {str(-code) for code in range(1100, 1106)}
)
ACCESS_CODES: Mapping[str, Access] = {
    "-1002": Access.NO_PERMISSION,
    "-1016": Access.MAINTENANCE,
    "-1021": Access.CLOCK,
    "-1022": Access.WRONG_SIGNATURE,
    "-2008": Access.WRONG_KEY,
    "-2014": Access.WRONG_KEY,
    "-2015": Access.KEY_IP_OR_PERMISSION,
}
NETWORK_ALIASES: Mapping[str, str] = {
    "ERC20": "ETH",
    "TRC20": "TRX",
    "BEP20": "BSC",
    "ARBITRUMONE": "ARBITRUM",
    "SPL": "SOL",
}
_OFF_CHAIN = re.compile(r"(?i)^(off-chain|internal) transfer\b")
_RECEIVE_WINDOW = timedelta(seconds=5)
_PAGE = 1000
_SMALLEST_STEP = Decimal("0.00000001")  # Binance keeps its books to eight decimals


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    code = body.get("code")
    error = None if code in (None, "", 0, "0", 200, "200") else str(code)
    return SubmitBody(
        error_code=error,
        message=str(body.get("msg") or ""),
        withdrawal_id=body.get("id"),
        success=error is None and body.get("success", True) is True and body.get("status") != "error",
    )


class BinanceVenue(Venue):
    """Requests to and readings of Binance. Requested amounts are gross: the record's amount + fee."""

    ccxt_id = "binance"
    payload_format = "binance.withdraw.v1"
    wallet = "spot"
    fee_rule = FeeRule.FROM_AMOUNT
    identity = Identity.SEARCHABLE
    request_lifetime = _RECEIVE_WINDOW
    client_id_window = timedelta(days=7, seconds=-1)
    history_window = timedelta(days=90, seconds=-1)
    ids_per_lookup = 45
    withdrawal_pages = deposit_pages = ByOffset(_PAGE)
    access_codes = ACCESS_CODES
    submit_cost = 6.0  # weight 900 of 180,000 a minute
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        confirm_first=frozenset({"-1021"}),
        # No code for a used client id is documented: whatever speaks of a repeat is looked up.
        duplicate_texts=("duplicate", "already exist", "repeat"),
    )

    def network_code(self, name: str) -> str:
        return NETWORK_ALIASES.get(name.upper(), name)

    def submit(self, order: Order, signed_at: datetime) -> Call:
        params = {
            "coin": order.coin,
            "network": order.network,
            "address": order.address,
            "amount": order.amount,
            "withdrawOrderId": order.client_id,
            "walletType": "0",  # else the venue takes whatever wallet its web page has selected
            "timestamp": milliseconds(signed_at),
            "recvWindow": str(int(_RECEIVE_WINDOW.total_seconds() * 1000)),
        }
        if order.memo is not None:
            params["addressTag"] = order.memo
        return Call("sapiPostCapitalWithdrawApply", params, moves_money=True, raw_encoded=True)

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call:
        return Call("sapiGetCapitalWithdrawHistory", {"withdrawOrderId": client_id, **start_end(window)})

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:  # noqa: ARG002
        return Call("sapiGetCapitalWithdrawHistory", {"idList": ",".join(withdrawal_ids), **start_end(window)})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("sapiGetCapitalWithdrawHistory", _page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(_withdrawal(row) for row in rows(body, "withdrawal history"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("sapiGetCapitalDepositHisrec", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(_deposit(row) for row in rows(body, "deposit history"))

    def system_status(self) -> Call:
        return Call("sapiGetSystemStatus")

    def read_system_problem(self, body: Any) -> str | None:
        status = str(field(body, "status", "system status"))
        return None if status == "0" else f"the venue reports {body.get('msg') or 'maintenance'} (status {status})"

    def permissions(self) -> Call:
        return Call("sapiGetAccountApiRestrictions")

    def read_permission_problem(self, body: Any) -> str | None:
        if field(body, "enableWithdrawals", "API restrictions") is True:
            return None
        return "the API key may not withdraw; enable withdrawals for it at the venue"

    def server_time(self) -> Call:
        return Call("publicGetTime")

    def read_server_time(self, body: Any) -> datetime:
        return moment(field(body, "serverTime", "server time"))

    def networks(self, coin: str) -> tuple[Call, ...]:  # noqa: ARG002 - it tells of all coins at once
        return (Call("sapiGetCapitalConfigGetall"),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        for entry in rows(body, "coin information"):
            if entry.get("coin") == coin:
                allowed = entry.get("withdrawAllEnable", True) is True
                return tuple(_network(row, allowed) for row in rows(entry.get("networkList"), "network list"))
        return ()

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("sapiV3PostAssetGetUserAsset")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        return tuple(
            CoinBalance(
                coin=str(field(row, "asset", "balance")),
                free=decimal(field(row, "free", "balance"), "free"),
                locked=decimal(row.get("locked", "0"), "locked") + decimal(row.get("freeze", "0"), "freeze"),
                withdrawing=decimal(row.get("withdrawing", "0"), "withdrawing"),
            )
            for row in rows(body, "balances")
        )

    def deposit_address(self, coin: str, network: str) -> Call:
        return Call("sapiGetCapitalDepositAddress", {"coin": coin, "network": network})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:
        address = str(field(body, "address", "deposit address"))
        return (DepositAddress(network, address, text(body.get("tag"))),)


VENUE = BinanceVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    of_coin = {} if coin is None else {"coin": coin}
    return {**of_coin, "offset": cursor or "0", "limit": str(_PAGE), **start_end(window)}


def _withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    status = str(field(row, "status", "withdrawal"))
    state, listed = state_in(WITHDRAWAL_STATES, status)
    tx_id = text(row.get("txId"))
    return WithdrawalRow(
        withdrawal_id=ident(row, "id", "withdrawal"),
        client_id=text(row.get("withdrawOrderId")),
        coin=str(field(row, "coin", "withdrawal")),
        network=text(row.get("network")),
        address=text(row.get("address")),
        memo=text(row.get("addressTag")),
        amount=decimal(field(row, "amount", "withdrawal"), "amount"),
        fee=decimal(row.get("transactionFee") or "0", "transactionFee"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=tx_id,
        internal=str(row.get("transferType", "0")) == "1" or bool(tx_id and _OFF_CHAIN.match(tx_id)),
        applied_at=utc_text(row.get("applyTime")),
        raw=row,
    )


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    status = str(field(row, "status", "deposit"))
    state, listed = state_in(DEPOSIT_STATES, status)
    return DepositRow(
        deposit_id=ident(row, "id", "deposit"),
        coin=str(field(row, "coin", "deposit")),
        network=text(row.get("network")),
        address=text(row.get("address")),
        memo=text(row.get("addressTag")),
        amount=decimal(field(row, "amount", "deposit"), "amount"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txId")),
        inserted_at=moment(row["insertTime"]) if row.get("insertTime") else None,
        raw=row,
    )


def _network(row: Mapping[str, Any], coin_allowed: bool) -> NetworkRules:
    tagged = row.get("sameAddress") is True or row.get("withdrawTag") is True
    step = decimal(row.get("withdrawIntegerMultiple") or "0", "withdrawIntegerMultiple")
    maximum = row.get("withdrawMax")
    return NetworkRules(
        network=str(field(row, "network", "network list")),
        withdraw_enabled=coin_allowed and row.get("withdrawEnable") is True,
        fee=decimal(field(row, "withdrawFee", "network list"), "withdrawFee"),
        minimum=decimal(field(row, "withdrawMin", "network list"), "withdrawMin"),
        maximum=decimal(maximum, "withdrawMax") if maximum else None,
        step=step if step > 0 else _SMALLEST_STEP,
        memo_required=tagged,
        memo_allowed=tagged or bool(row.get("memoRegex")),
        memo_pattern=str(row.get("memoRegex") or ""),
        address_pattern=str(row.get("addressRegex") or ""),
    )
