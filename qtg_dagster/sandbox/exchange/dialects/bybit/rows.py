"""Bybit's records: fifty rows at most, less than thirty days, a cursor; deposits without a chain have their own."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.bybit.signing import BybitParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row, position
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

MAX_ROWS = 50
LONGEST_MS = 30 * 86_400_000
_ON_CHAIN, _OFF_CHAIN, _BOTH = "0", "1", "2"
_WITHDRAWAL_WORDS: Mapping[WithdrawalStatus, str] = {
    WithdrawalStatus.EMAIL_SENT: "MoreInformationRequired",
    WithdrawalStatus.AWAITING_APPROVAL: "SecurityCheck",
    WithdrawalStatus.PROCESSING: "Pending",
    WithdrawalStatus.COMPLETED: "success",
    WithdrawalStatus.REJECTED: "Reject",
    WithdrawalStatus.FAILURE: "Fail",
    WithdrawalStatus.CANCELLED: "CancelByUser",
}
_DEPOSIT_NUMBERS: Mapping[DepositStatus, int] = {
    DepositStatus.PENDING: 1,
    DepositStatus.SUCCESS: 3,
    DepositStatus.CREDITED_LOCKED: 10011,
    DepositStatus.AWAITING_USER: 70013,
    DepositStatus.REJECTED: 4,
    DepositStatus.WRONG: 70011,
}


class Records:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def withdrawals(self, parameters: BybitParameters) -> dict[str, Any]:
        """On the chain alone unless `withdrawType` asks for more; none of these ever leaves it."""
        kind = parameters.text("withdrawType") or _ON_CHAIN
        if kind not in (_ON_CHAIN, _OFF_CHAIN, _BOTH):
            raise parameters.malformed("withdrawType")
        if kind == _OFF_CHAIN:
            return {"rows": [], "nextPageCursor": ""}
        return self._page(parameters, "withdrawID", self._venue.withdrawals, _withdrawal)

    def deposits(self, parameters: BybitParameters) -> dict[str, Any]:
        """Those that came over a chain."""
        return self._page(parameters, "id", self._venue.deposits, _deposit)

    def internal_deposits(self, parameters: BybitParameters) -> dict[str, Any]:
        """Those between customers: there are none here."""
        _window(parameters, self._venue.now_ms())
        return {"rows": [], "nextPageCursor": ""}

    def _page(
        self,
        parameters: BybitParameters,
        id_name: str,
        read: Callable[[Page], list[Row]],
        show: Callable[[Row], dict[str, Any]],
    ) -> dict[str, Any]:
        limit = parameters.whole("limit")
        limit = MAX_ROWS if limit is None else limit
        if not 1 <= limit <= MAX_ROWS:
            raise parameters.malformed("limit")
        start, end = _window(parameters, self._venue.now_ms())
        key, cursor = parameters.text(id_name), parameters.text("cursor")
        rows = read(
            Page(
                limit=limit + 1,
                start_ms=start,
                end_ms=end,
                coin=parameters.text("coin"),
                tx_hash=parameters.text("txID"),
                ids=None if key is None else (key,),
                after=None if cursor is None else _after(cursor, parameters),
            )
        )
        more = rows[:limit] if len(rows) > limit else []
        return {"rows": self._venue.shown(rows[:limit], show), "nextPageCursor": _cursor(more) if more else ""}


def _window(parameters: BybitParameters, now_ms: int) -> tuple[int, int]:
    """Both ends, the last thirty days when neither is given."""
    end = parameters.whole("endTime")
    end = now_ms if end is None else end
    start = parameters.whole("startTime")
    start = end - LONGEST_MS + 1 if start is None else start
    if start > end or end - start >= LONGEST_MS:
        raise parameters.malformed("startTime")
    return start, end


def _cursor(rows: list[Row]) -> str:
    return base64.urlsafe_b64encode("{}:{}".format(*position(rows)).encode()).decode()


def _after(cursor: str, parameters: BybitParameters) -> tuple[int, int]:
    try:
        at_ms, _, seq = base64.urlsafe_b64decode(cursor).decode().partition(":")
        return int(at_ms), int(seq)
    except (binascii.Error, ValueError):
        raise parameters.malformed("cursor") from None


def _withdrawal(row: Row) -> dict[str, Any]:
    """`amount` arrives in full. The client's own id is not shown."""
    return {
        "withdrawId": row["id"],
        "txID": row["tx_hash"] if row["broadcast"] else "",
        "withdrawType": 0,
        "coin": row["coin"],
        "chain": row["network"],
        "amount": row["net"],
        "withdrawFee": row["fee"],
        "status": _WITHDRAWAL_WORDS[WithdrawalStatus(row["status"])],
        "toAddress": row["address"],
        "tag": "",
        "createTime": str(row["applied_ms"]),
        "updateTime": str(row["completed_ms"] or row["applied_ms"]),
    }


def _deposit(row: Row) -> dict[str, Any]:
    pending = DepositStatus(row["status"]) is DepositStatus.PENDING
    return {
        "id": row["id"],
        "coin": row["coin"],
        "chain": row["network"],
        "amount": row["amount"],
        "txID": row["tx_hash"],
        "status": _DEPOSIT_NUMBERS[DepositStatus(row["status"])],
        "toAddress": row["address"],
        "tag": "",
        "depositFee": "",
        "successAt": "" if pending else str(row["inserted_ms"]),
        "confirmations": str(row["confirmations"]),
        "txIndex": "0",
        "blockHash": "",
        "batchReleaseLimit": "-1",
        "depositType": "0",
        "fromAddress": row["source_address"],
    }
