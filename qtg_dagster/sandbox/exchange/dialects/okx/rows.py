"""OKX's two histories: at most a hundred rows, paged by the time of a row, and a state table for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.okx.signing import OkxParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

_MAX_ROWS = 100
_WITHDRAWAL_STATES: Mapping[WithdrawalStatus, str] = {
    WithdrawalStatus.EMAIL_SENT: "8",
    WithdrawalStatus.AWAITING_APPROVAL: "0",
    WithdrawalStatus.PROCESSING: "1",
    WithdrawalStatus.COMPLETED: "2",
    WithdrawalStatus.REJECTED: "-1",
    WithdrawalStatus.FAILURE: "-1",
    WithdrawalStatus.CANCELLED: "-2",
}
_DEPOSIT_STATES: Mapping[DepositStatus, str] = {
    DepositStatus.PENDING: "0",
    DepositStatus.CREDITED_LOCKED: "1",
    DepositStatus.SUCCESS: "2",
    DepositStatus.AWAITING_USER: "8",
    DepositStatus.REJECTED: "13",
    DepositStatus.WRONG: "12",
}


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def withdrawals(self, parameters: OkxParameters) -> list[dict[str, Any]]:
        """Newest first; by clientId, wdId or txId when one is given."""
        rows = self._venue.withdrawals(_page(parameters, "wdId", order_id=parameters.text("clientId")))
        return _in_state(self._venue.shown(rows, _withdrawal), parameters)

    def deposits(self, parameters: OkxParameters) -> list[dict[str, Any]]:
        """Newest first; by depId or txId when one is given."""
        rows = self._venue.deposits(_page(parameters, "depId"))
        return _in_state(self._venue.shown(rows, _deposit), parameters)


def _page(parameters: OkxParameters, id_name: str, order_id: str | None = None) -> Page:
    """`after` asks for rows older than a time, `before` for newer ones; neither includes the time itself."""
    limit = parameters.whole("limit")
    limit = _MAX_ROWS if limit is None else limit
    if not 1 <= limit <= _MAX_ROWS:
        raise parameters.malformed("limit")
    after, before, key = parameters.whole("after"), parameters.whole("before"), parameters.text(id_name)
    return Page(
        limit=limit,
        start_ms=None if before is None else before + 1,
        end_ms=None if after is None else after - 1,
        coin=parameters.text("ccy"),
        order_id=order_id,
        tx_hash=parameters.text("txId"),
        ids=None if key is None else (key,),
    )


def _in_state(rows: list[dict[str, Any]], parameters: OkxParameters) -> list[dict[str, Any]]:
    asked = parameters.text("state")
    return rows if asked is None else [row for row in rows if row["state"] == asked]


def _withdrawal(row: Row) -> dict[str, Any]:
    """`amt` arrives in full: the fee was taken on top of it."""
    return {
        "ccy": row["coin"],
        "chain": f"{row['coin']}-{row['network']}",
        "amt": row["net"],
        "fee": row["fee"],
        "feeCcy": row["coin"],
        "ts": str(row["applied_ms"]),
        "from": "1",
        "to": row["address"],
        "toAddrType": "1",
        "areaCodeFrom": "",
        "areaCodeTo": "",
        "txId": row["tx_hash"] if row["broadcast"] else "",
        "state": _WITHDRAWAL_STATES[WithdrawalStatus(row["status"])],
        "wdId": row["id"],
        "clientId": row["order_id"] or "",
        "nonTradableAsset": False,
        "note": row["info"],
    }


def _deposit(row: Row) -> dict[str, Any]:
    return {
        "ccy": row["coin"],
        "chain": f"{row['coin']}-{row['network']}",
        "amt": row["amount"],
        "ts": str(row["inserted_ms"]),
        "from": row["source_address"],
        "to": row["address"],
        "areaCodeFrom": "",
        "txId": row["tx_hash"],
        "state": _DEPOSIT_STATES[DepositStatus(row["status"])],
        "depId": row["id"],
        "fromWdId": "",
        "actualDepBlkConfirm": str(row["confirmations"]),
    }
