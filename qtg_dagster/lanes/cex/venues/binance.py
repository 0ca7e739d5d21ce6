"""Binance's wire: spot wallet withdrawals and deposits through `sapi`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules, usable_id
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import (
    Call,
    CoinBalance,
    DepositRow,
    NetworkRules,
    Order,
    RowState,
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
NETWORK_ALIASES: Mapping[str, str] = {
    "ERC20": "ETH",
    "TRC20": "TRX",
    "BEP20": "BSC",
    "ARBITRUMONE": "ARBITRUM",
    "SPL": "SOL",
}
_OFF_CHAIN = re.compile(r"(?i)^(off-chain|internal) transfer\b")
_RECEIVE_WINDOW = timedelta(seconds=5)
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


class BinanceVenue:
    """Requests to and readings of Binance. Requested amounts are gross: the record's amount + fee."""

    ccxt_id = "binance"
    payload_format = "binance.withdraw.v1"
    wallet = "spot"
    amount_includes_fee = True
    request_lifetime = _RECEIVE_WINDOW
    client_id_window = timedelta(days=7, seconds=-1)
    history_window = timedelta(days=90, seconds=-1)
    ids_per_lookup = 45
    page_size = 1000
    submit_cost = 6.0  # weight 900 of 180,000 a minute
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        confirm_first=frozenset({"-1021"}),
        # No code for a used client id is documented: whatever speaks of a repeat is looked up.
        duplicate_texts=("duplicate", "already exist", "repeat"),
    )

    def client_id(self, idempotency_key: str) -> str:
        """Thirty-two letters and digits, always the same for the same key."""
        return hashlib.sha256(b"qtg.cex.client-id.v1:" + idempotency_key.encode()).hexdigest()[:32]

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
            "timestamp": _milliseconds(signed_at),
            "recvWindow": str(int(_RECEIVE_WINDOW.total_seconds() * 1000)),
        }
        if order.memo is not None:
            params["addressTag"] = order.memo
        return Call("sapiPostCapitalWithdrawApply", params, moves_money=True, raw_encoded=True)

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call:
        return Call("sapiGetCapitalWithdrawHistory", {"withdrawOrderId": client_id, **_times(window)})

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], window: Window) -> Call:
        return Call("sapiGetCapitalWithdrawHistory", {"idList": ",".join(withdrawal_ids), **_times(window)})

    def withdrawals(self, coin: str, window: Window, offset: int) -> Call:
        page = {"coin": coin, "offset": str(offset), "limit": str(self.page_size), **_times(window)}
        return Call("sapiGetCapitalWithdrawHistory", page)

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(_withdrawal(row) for row in _rows(body, "withdrawal history"))

    def deposits(self, coin: str, window: Window, offset: int) -> Call:
        page = {"coin": coin, "offset": str(offset), "limit": str(self.page_size), **_times(window)}
        return Call("sapiGetCapitalDepositHisrec", page)

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(_deposit(row) for row in _rows(body, "deposit history"))

    def system_status(self) -> Call:
        return Call("sapiGetSystemStatus")

    def read_system_problem(self, body: Any) -> str | None:
        status = str(_field(body, "status", "system status"))
        return None if status == "0" else f"the venue reports {body.get('msg') or 'maintenance'} (status {status})"

    def permissions(self) -> Call:
        return Call("sapiGetAccountApiRestrictions")

    def read_permission_problem(self, body: Any) -> str | None:
        if _field(body, "enableWithdrawals", "API restrictions") is True:
            return None
        return "the API key may not withdraw; enable withdrawals for it at the venue"

    def server_time(self) -> Call:
        return Call("publicGetTime")

    def read_server_time(self, body: Any) -> datetime:
        return _moment(_field(body, "serverTime", "server time"))

    def networks(self) -> Call:
        return Call("sapiGetCapitalConfigGetall")

    def read_networks(self, body: Any, coin: str) -> tuple[NetworkRules, ...]:
        for entry in _rows(body, "coin information"):
            if entry.get("coin") == coin:
                allowed = entry.get("withdrawAllEnable", True) is True
                return tuple(_network(row, allowed) for row in _rows(entry.get("networkList"), "network list"))
        return ()

    def balances(self) -> Call:
        return Call("sapiV3PostAssetGetUserAsset")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        return tuple(
            CoinBalance(
                coin=str(_field(row, "asset", "balance")),
                free=_decimal(_field(row, "free", "balance"), "free"),
                locked=_decimal(row.get("locked", "0"), "locked") + _decimal(row.get("freeze", "0"), "freeze"),
                withdrawing=_decimal(row.get("withdrawing", "0"), "withdrawing"),
            )
            for row in _rows(body, "balances")
        )


VENUE = BinanceVenue()


def _withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    status = str(_field(row, "status", "withdrawal"))
    tx_id = _text(row.get("txId"))
    return WithdrawalRow(
        withdrawal_id=_id(row, "withdrawal"),
        client_id=_text(row.get("withdrawOrderId")),
        coin=str(_field(row, "coin", "withdrawal")),
        network=_text(row.get("network")),
        address=_text(row.get("address")),
        memo=_text(row.get("addressTag")),
        amount=_decimal(_field(row, "amount", "withdrawal"), "amount"),
        fee=_decimal(row.get("transactionFee") or "0", "transactionFee"),
        state=WITHDRAWAL_STATES.get(status, RowState.PENDING),
        raw_status=status,
        status_listed=status in WITHDRAWAL_STATES,
        tx_id=tx_id,
        internal=str(row.get("transferType", "0")) == "1" or bool(tx_id and _OFF_CHAIN.match(tx_id)),
        applied_at=_utc_text(row.get("applyTime")),
        raw=row,
    )


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    status = str(_field(row, "status", "deposit"))
    return DepositRow(
        deposit_id=_id(row, "deposit"),
        coin=str(_field(row, "coin", "deposit")),
        network=_text(row.get("network")),
        address=_text(row.get("address")),
        memo=_text(row.get("addressTag")),
        amount=_decimal(_field(row, "amount", "deposit"), "amount"),
        state=DEPOSIT_STATES.get(status, RowState.PENDING),
        raw_status=status,
        status_listed=status in DEPOSIT_STATES,
        tx_id=_text(row.get("txId")),
        inserted_at=_moment(row["insertTime"]) if row.get("insertTime") else None,
        raw=row,
    )


def _network(row: Mapping[str, Any], coin_allowed: bool) -> NetworkRules:
    tagged = row.get("sameAddress") is True or row.get("withdrawTag") is True
    step = _decimal(row.get("withdrawIntegerMultiple") or "0", "withdrawIntegerMultiple")
    maximum = row.get("withdrawMax")
    return NetworkRules(
        network=str(_field(row, "network", "network list")),
        withdraw_enabled=coin_allowed and row.get("withdrawEnable") is True,
        fee=_decimal(_field(row, "withdrawFee", "network list"), "withdrawFee"),
        minimum=_decimal(_field(row, "withdrawMin", "network list"), "withdrawMin"),
        maximum=_decimal(maximum, "withdrawMax") if maximum else None,
        step=step if step > 0 else _SMALLEST_STEP,
        memo_required=tagged,
        memo_allowed=tagged or bool(row.get("memoRegex")),
        memo_pattern=str(row.get("memoRegex") or ""),
        address_pattern=str(row.get("addressRegex") or ""),
    )


def _rows(body: Any, what: str) -> Iterable[Mapping[str, Any]]:
    if not isinstance(body, list) or not all(isinstance(row, dict) for row in body):
        raise LookupFailed("MALFORMED", f"{what}: not a list of rows")
    return body


def _field(row: Any, name: str, what: str) -> Any:
    if not isinstance(row, dict) or row.get(name) is None:
        raise LookupFailed("MALFORMED", f"{what}: {name} is missing")
    return row[name]


def _id(row: Mapping[str, Any], what: str) -> str:
    found = usable_id(_field(row, "id", what))
    if found is None:
        raise LookupFailed("MALFORMED", f"{what}: {row['id']!r} is no id")
    return found


def _text(value: Any) -> str | None:
    text = "" if value is None else str(value).strip()
    return text or None


def _decimal(value: Any, what: str) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise LookupFailed("MALFORMED", f"{what}: {value!r} is no number") from error
    if not number.is_finite() or number < 0:
        raise LookupFailed("MALFORMED", f"{what}: {value!r} is no amount")
    return number


def _moment(value: Any) -> datetime:
    text = str(value)
    if not text.isdigit() or len(text) > 14:
        raise LookupFailed("MALFORMED", f"{value!r} is no time in milliseconds")
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(text))


def _utc_text(value: Any) -> datetime | None:
    """`applyTime` is UTC without saying so; newer rows may carry milliseconds instead."""
    if value in (None, ""):
        return None
    if str(value).isdigit():
        return _moment(value)
    try:
        return datetime.strptime(str(value), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise LookupFailed("MALFORMED", f"applyTime: {value!r} is no UTC time") from error


def _milliseconds(moment: datetime) -> str:
    return str((moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))


def _times(window: Window) -> dict[str, str]:
    return {"startTime": _milliseconds(window.start), "endTime": _milliseconds(window.end)}
