"""OKX's answers: the envelope, and rows of withdrawals, deposits, networks and the trading account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.readings import data_of_success, decimal, field, ident, moment, rows, state_in, step_of, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import CoinBalance, DepositRow, NetworkRules, RowState, WithdrawalRow

WITHDRAWAL_STATES: Mapping[str, RowState] = {
    "-3": RowState.PENDING,  # cancelling
    "-2": RowState.CANCELLED,
    "-1": RowState.FAILED,
    "2": RowState.DONE,
    # waiting, in review or under way, each in its own words
    **dict.fromkeys(("0", "1", "4", "5", "6", "7", "8", "9", "10", "12", "15", "16", "17", "19"), RowState.PENDING),
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    "0": RowState.PENDING,
    "1": RowState.LOCKED,  # credited, cannot be withdrawn yet
    "2": RowState.DONE,
    "8": RowState.PENDING,
    "17": RowState.PENDING,
    **dict.fromkeys(("11", "12", "13", "14"), RowState.HELD),  # blocked, frozen or stopped until somebody acts
}


def data_of(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    return rows(data_of_success(body, "0", what), what)


def one_of(body: Any, what: str) -> Sequence[Mapping[str, Any]]:
    found = data_of(body, what)
    if len(found) != 1:
        raise LookupFailed("MALFORMED", f"{what}: {len(found)} rows where one is due")
    return found


def traded_balance(row: Mapping[str, Any]) -> CoinBalance:
    """Account modes that tell no `availBal` tell the cash and what of it is frozen."""
    frozen = decimal(row.get("frozenBal") or "0", "frozenBal")
    free = text(row.get("availBal"))
    cash = decimal(field(row, "cashBal", "trading account"), "cashBal") if free is None else frozen
    return CoinBalance(
        coin=str(field(row, "ccy", "trading account")),
        free=max(cash - frozen, Decimal(0)) if free is None else decimal(free, "availBal"),
        locked=frozen,
        withdrawing=Decimal(0),
    )


def network_of(row: Mapping[str, Any]) -> str | None:
    """`USDT-Arbitrum One` without its coin."""
    chain = text(row.get("chain"))
    return None if chain is None else chain.removeprefix(f"{row.get('ccy')}-")


def _fee(row: Mapping[str, Any]) -> Decimal:
    """Older rows tell the coin behind the number; a fee in another coin takes nothing of this one."""
    coin, told = str(field(row, "ccy", "withdrawal")), text(row.get("fee")) or "0"
    number = told[: -len(coin)] if told.upper().endswith(coin.upper()) else told
    fee = decimal(number.strip(), "fee")
    return fee if text(row.get("feeCcy")) in (None, coin) else Decimal(0)


def withdrawal_row(row: Mapping[str, Any]) -> WithdrawalRow:
    status = str(field(row, "state", "withdrawal"))
    state, listed = state_in(WITHDRAWAL_STATES, status)
    return WithdrawalRow(
        withdrawal_id=ident(row, "wdId", "withdrawal"),
        client_id=text(row.get("clientId")),
        coin=str(field(row, "ccy", "withdrawal")),
        network=network_of(row),
        address=text(row.get("to")),
        memo=text(row.get("tag")) or text(row.get("memo")) or text(row.get("pmtId")),
        amount=decimal(field(row, "amt", "withdrawal"), "amt"),
        fee=_fee(row),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txId")),
        internal=False,  # asked for on the chain only
        applied_at=moment(row["ts"]) if row.get("ts") else None,
        raw=row,
    )


def deposit_row(row: Mapping[str, Any]) -> DepositRow:
    status = str(field(row, "state", "deposit"))
    state, listed = state_in(DEPOSIT_STATES, status)
    return DepositRow(
        deposit_id=ident(row, "depId", "deposit"),
        coin=str(field(row, "ccy", "deposit")),
        network=network_of(row),
        address=text(row.get("to")),
        memo=text(row.get("tag")) or text(row.get("memo")) or text(row.get("pmtId")),
        amount=decimal(field(row, "amt", "deposit"), "amt"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txId")),
        inserted_at=moment(row["ts"]) if row.get("ts") else None,
        raw=row,
    )


def network_rules(row: Mapping[str, Any]) -> NetworkRules:
    tagged = row.get("needTag") is True
    maximum = row.get("maxWd")
    return NetworkRules(
        network=network_of(row) or "",
        withdraw_enabled=row.get("canWd") is True,
        fee=decimal(row.get("fee") or field(row, "maxFee", "currencies"), "fee"),
        minimum=decimal(field(row, "minWd", "currencies"), "minWd"),
        maximum=decimal(maximum, "maxWd") if maximum else None,
        step=step_of(field(row, "wdTickSz", "currencies"), "wdTickSz"),
        memo_required=tagged,
        memo_allowed=tagged,
        memo_pattern="",
        address_pattern="",
    )
