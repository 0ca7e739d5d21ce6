"""Gate's two histories: at most thirty days in whole seconds, a hundred rows by offset, and a word table for each."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.gate.signing import GateParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

_DAY = 86_400
_LONGEST, _BY_DEFAULT = 30 * _DAY, 7 * _DAY
_MAX_ROWS = 100
#: What was sent is called done at once: only the number of its block says that it was mined.
_WITHDRAWAL_WORDS: Mapping[WithdrawalStatus, str] = {
    WithdrawalStatus.EMAIL_SENT: "VERIFY",
    WithdrawalStatus.AWAITING_APPROVAL: "REQUEST",
    WithdrawalStatus.PROCESSING: "DONE",
    WithdrawalStatus.COMPLETED: "DONE",
    WithdrawalStatus.REJECTED: "REJECT",
    WithdrawalStatus.FAILURE: "INVALID",
    WithdrawalStatus.CANCELLED: "CANCEL",
}
_DEPOSIT_WORDS: Mapping[DepositStatus, str] = {
    DepositStatus.PENDING: "PEND",
    DepositStatus.CREDITED_LOCKED: "DEP_CREDITED",
    DepositStatus.SUCCESS: "DONE",
    DepositStatus.AWAITING_USER: "MANUAL",
    DepositStatus.REJECTED: "INVALID",
    DepositStatus.WRONG: "BLOCKED",
}


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def withdrawals(self, parameters: GateParameters) -> list[dict[str, Any]]:
        """Newest first; with a withdraw_id only that one, whenever it was."""
        key = parameters.text("withdraw_id")
        if key is not None:
            page = Page(limit=1, ids=(key,))
        else:
            page = self._page(parameters, order_id=parameters.text("withdraw_order_id"))
        return self._venue.shown(self._venue.withdrawals(page), shown_withdrawal)

    def deposits(self, parameters: GateParameters) -> list[dict[str, Any]]:
        """Newest first."""
        return self._venue.shown(self._venue.deposits(self._page(parameters)), _deposit)

    def _page(self, parameters: GateParameters, order_id: str | None = None) -> Page:
        limit = parameters.whole("limit")
        limit = _MAX_ROWS if limit is None else limit
        if not 1 <= limit <= _MAX_ROWS:
            raise parameters.malformed("limit")
        now = self._venue.now_ms() // 1000
        start, end = parameters.whole("from"), parameters.whole("to")
        end = now if end is None else end
        start = now - _BY_DEFAULT if start is None else start
        if end < start or end - start > _LONGEST:
            raise Refusal("INVALID_PARAM_VALUE", "the range of from and to exceeds 30 days")
        return Page(
            limit=limit,
            offset=parameters.whole("offset") or 0,
            start_ms=start * 1000,
            end_ms=end * 1000 + 999,  # rows tell whole seconds
            coin=parameters.text("currency"),
            order_id=order_id,
        )


def shown_withdrawal(row: Row) -> dict[str, Any]:
    """`amount` is what was asked for, the fee in it. The ledger keeps no block: any number says that there is one."""
    status = WithdrawalStatus(row["status"])
    ended = row["completed_ms"]
    return {
        "id": row["id"],
        "timestamp": str(row["applied_ms"] // 1000),
        "timestamp2": "" if ended is None else str(ended // 1000),
        "withdraw_order_id": row["order_id"] or "",
        "currency": row["coin"],
        "chain": row["network"],
        "address": row["address"],
        "memo": row["tag"] or "",
        "amount": f"{Decimal(row['net']) + Decimal(row['fee']):f}",
        "fee": row["fee"],
        "txid": row["tx_hash"] if row["broadcast"] else "",
        "block_number": str(1_000_000 + row["seq"]) if status is WithdrawalStatus.COMPLETED else "0",
        "status": _WITHDRAWAL_WORDS[status],
        "fail_reason": row["info"],
        "type": "",
    }


def _deposit(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "timestamp": str(row["inserted_ms"] // 1000),
        "currency": row["coin"],
        "chain": row["network"],
        "address": row["address"],
        "memo": "",
        "amount": row["amount"],
        "txid": row["tx_hash"],
        "status": _DEPOSIT_WORDS[DepositStatus(row["status"])],
    }
