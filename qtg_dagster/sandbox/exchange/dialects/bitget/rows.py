"""Bitget's two histories: at most a hundred rows, asked for within ninety days and below an id, one word a status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.bitget.names import chain_name
from qtg_dagster.sandbox.exchange.dialects.bitget.signing import BitgetParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row, position
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

_MAX_ROWS = 100
_ROWS = 20
_LONGEST_DAYS = 90
_WITHDRAWAL_STATES: Mapping[WithdrawalStatus, str] = {
    WithdrawalStatus.EMAIL_SENT: "first_audit",
    WithdrawalStatus.AWAITING_APPROVAL: "pending",
    WithdrawalStatus.PROCESSING: "wallet_processing",
    WithdrawalStatus.COMPLETED: "success",
    WithdrawalStatus.REJECTED: "reject",
    WithdrawalStatus.FAILURE: "fail",
    WithdrawalStatus.CANCELLED: "cancel",
}
_DEPOSIT_STATES: Mapping[DepositStatus, str] = {
    DepositStatus.PENDING: "pending",
    DepositStatus.CREDITED_LOCKED: "pre_success",
    DepositStatus.SUCCESS: "success",
    DepositStatus.AWAITING_USER: "deposit_check",
    DepositStatus.REJECTED: "fail",
    DepositStatus.WRONG: "deposit_check_fail",
}


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def withdrawals(self, parameters: BitgetParameters) -> list[dict[str, Any]]:
        """Newest first; by clientOid or orderId when one is given, and within the times all the same."""
        page = _page(parameters, self._venue.withdrawals, order_id=parameters.text("clientOid"))
        return self._venue.shown(self._venue.withdrawals(page), _withdrawal)

    def deposits(self, parameters: BitgetParameters) -> list[dict[str, Any]]:
        """Newest first; by orderId when one is given."""
        page = _page(parameters, self._venue.deposits)
        return self._venue.shown(self._venue.deposits(page), _deposit)


def _page(parameters: BitgetParameters, history: Callable[[Page], list[Row]], order_id: str | None = None) -> Page:
    start, end = _moment(parameters, "startTime"), _moment(parameters, "endTime")
    if start > end:
        raise Refusal("40707", "Start time is greater than end time")
    if end - start > _LONGEST_DAYS * 86_400_000:
        raise Refusal("00001", f"startTime and endTime interval cannot be greater than {_LONGEST_DAYS} days")
    limit = parameters.whole("limit")
    limit = _ROWS if limit is None else limit
    if not 1 <= limit <= _MAX_ROWS:
        raise Refusal("40058", f"Parameter limit Only a maximum of {_MAX_ROWS} is allowed")
    key, below = parameters.text("orderId"), parameters.text("idLessThan")
    seen = [] if below is None else history(Page(limit=1, ids=(below,)))
    if below is not None and not seen:
        raise parameters.malformed("idLessThan")
    return Page(
        limit=limit,
        start_ms=start,
        end_ms=end,
        coin=parameters.text("coin"),
        order_id=order_id,
        ids=None if key is None else (key,),
        after=position(seen) if seen else None,
    )


def _moment(parameters: BitgetParameters, name: str) -> int:
    at = parameters.whole(name)
    if at is None:
        raise parameters.missing(name)
    return at


def _withdrawal(row: Row) -> dict[str, Any]:
    """`size` is what was asked for, and the fee is a negative part of it."""
    return {
        "orderId": row["id"],
        "tradeId": row["tx_hash"] if row["broadcast"] else None,
        "coin": row["coin"],
        "dest": "on_chain",
        "clientOid": row["order_id"],
        "type": "withdraw",
        "tag": row["tag"],
        "size": f"{Decimal(row['net']) + Decimal(row['fee']):f}",
        "fee": f"-{row['fee']}",
        "status": _WITHDRAWAL_STATES[WithdrawalStatus(row["status"])],
        "toAddress": row["address"],
        "fromAddress": None,
        "confirm": str(row["confirmations"]),
        "chain": chain_name(row["coin"], row["network"]),
        "cTime": str(row["applied_ms"]),
        "uTime": str(row["completed_ms"] or row["applied_ms"]),
    }


def _deposit(row: Row) -> dict[str, Any]:
    return {
        "orderId": row["id"],
        "tradeId": row["tx_hash"],
        "coin": row["coin"],
        "type": "deposit",
        "size": row["amount"],
        "status": _DEPOSIT_STATES[DepositStatus(row["status"])],
        "toAddress": row["address"],
        "dest": "on_chain",
        "chain": chain_name(row["coin"], row["network"]),
        "fromAddress": row["source_address"],
        "cTime": str(row["inserted_ms"]),
        "uTime": str(row["completed_ms"] or row["inserted_ms"]),
    }
