"""Binance's rows: withdrawals, deposits and networks as its answers show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment, state_in, text, utc_text
from qtg_dagster.lanes.cex.venue import DepositRow, NetworkRules, RowState, WithdrawalRow

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
_OFF_CHAIN = re.compile(r"(?i)^(off-chain|internal) transfer\b")
_SMALLEST_STEP = Decimal("0.00000001")  # Binance keeps its books to eight decimals


def withdrawal_row(row: Mapping[str, Any]) -> WithdrawalRow:
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


def deposit_row(row: Mapping[str, Any]) -> DepositRow:
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


def network_rules(row: Mapping[str, Any], coin_allowed: bool) -> NetworkRules:
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
