"""KuCoin's two histories: pages by number of one coin, a withdrawal by its id, and how a failed one was returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.kucoin.accounts import chain_name
from qtg_dagster.sandbox.exchange.dialects.kucoin.signing import KucoinParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal
from qtg_dagster.sandbox.exchange.withdrawals import RETURNED, WithdrawalStatus

_FEWEST, _USUAL, _MOST = 10, 50, 500
_ALL = 100_000
_WITHDRAWAL_WORDS: Mapping[WithdrawalStatus, str] = {
    WithdrawalStatus.EMAIL_SENT: "REVIEW",
    WithdrawalStatus.AWAITING_APPROVAL: "PROCESSING",
    WithdrawalStatus.PROCESSING: "WALLET_PROCESSING",
    WithdrawalStatus.COMPLETED: "SUCCESS",
    **dict.fromkeys(RETURNED, "FAILURE"),
}
_DEPOSIT_WORDS: Mapping[DepositStatus, str] = {
    DepositStatus.PENDING: "PROCESSING",
    DepositStatus.AWAITING_USER: "PROCESSING",
    DepositStatus.CREDITED_LOCKED: "PROCESSING",  # there is no word for it
    DepositStatus.SUCCESS: "SUCCESS",
    DepositStatus.REJECTED: "FAILURE",
    DepositStatus.WRONG: "FAILURE",
}


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def withdrawals(self, parameters: KucoinParameters) -> dict[str, Any]:
        """Newest first."""
        return self._paged(parameters, self._venue.withdrawals, _withdrawal)

    def withdrawal(self, parameters: KucoinParameters) -> dict[str, Any]:
        """One by its id, whenever it was."""
        rows = self._venue.withdrawals(Page(limit=1, ids=(parameters.place["withdrawal_id"],)))
        if not rows:
            raise Refusal("400100", "withdrawal does not exist")
        (shown,) = self._venue.shown(rows, _withdrawal_by_id)
        return shown

    def deposits(self, parameters: KucoinParameters) -> dict[str, Any]:
        """Newest first."""
        return self._paged(parameters, self._venue.deposits, _deposit)

    def _paged(
        self, parameters: KucoinParameters, read: Callable[[Page], list[Row]], show: Callable[[Row], dict[str, Any]]
    ) -> dict[str, Any]:
        size, number = parameters.whole("pageSize") or _USUAL, parameters.whole("currentPage") or 1
        if not _FEWEST <= size <= _MOST:
            raise Refusal("400100", "pageSize should not less than 10 or greater than 500")
        page = Page(
            limit=_ALL,
            start_ms=parameters.whole("startAt"),
            end_ms=parameters.whole("endAt"),
            coin=parameters.required("currency"),
        )
        rows, status = read(page), parameters.text("status")
        shown = [row for row in self._venue.shown(rows, show) if status in (None, row["status"])]
        return {
            "currentPage": number,
            "pageSize": size,
            "totalNum": len(shown),
            "totalPage": -(-len(shown) // size),
            "items": shown[(number - 1) * size : number * size],
        }


def _withdrawal(row: Row) -> dict[str, Any]:
    """What a page shows: it does not say whether a failed one came back."""
    return {
        "id": row["id"],
        "currency": row["coin"],
        "chain": row["network"],
        "status": _WITHDRAWAL_WORDS[WithdrawalStatus(row["status"])],
        "address": row["address"],
        "memo": row["tag"] or "",
        "isInner": False,
        "amount": row["net"],
        "fee": row["fee"],
        "walletTxId": row["tx_hash"] if row["broadcast"] else None,
        "createdAt": row["applied_ms"],
        "updatedAt": row["completed_ms"] or row["applied_ms"],
        "remark": row["order_id"] or "",
        "arrears": False,
    }


def _withdrawal_by_id(row: Row) -> dict[str, Any]:
    back = WithdrawalStatus(row["status"]) in RETURNED
    shown = _withdrawal(row)
    del shown["chain"], shown["updatedAt"], shown["arrears"]
    return shown | {
        "uid": 1,
        "chainId": row["network"],
        "chainName": chain_name(row["network"]),
        "currencyName": row["coin"],
        "failureReason": row["info"] if back else "",
        "failureReasonMsg": None,
        "addressRemark": None,
        "cancelType": "NON_CANCELABLE",
        "taxes": None,
        "taxDescription": None,
        "returnStatus": "SUCCESS" if back else "NOT_RETURN",
        "returnAmount": f"{Decimal(row['net']) + Decimal(row['fee']):f}" if back else None,
        "returnCurrency": row["coin"] if back else None,
    }


def _deposit(row: Row) -> dict[str, Any]:
    """Without an id; the transaction comes with the address behind it."""
    return {
        "currency": row["coin"],
        "chain": chain_name(row["network"]),
        "status": _DEPOSIT_WORDS[DepositStatus(row["status"])],
        "address": row["address"],
        "memo": "",
        "isInner": False,
        "amount": row["amount"],
        "fee": "0.00000000",
        "walletTxId": f"{row['tx_hash']}@{row['address']}",
        "createdAt": row["inserted_ms"],
        "updatedAt": row["completed_ms"] or row["inserted_ms"],
        "remark": "",
        "arrears": False,
    }
