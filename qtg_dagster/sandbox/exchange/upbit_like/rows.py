"""The two histories: pages counted from one, at most a hundred rows, no bounds in time, and no address anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.upbit_like.signing import JwtParameters
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

_MAX_ROWS = 100
_SEOUL = timezone(timedelta(hours=9))


@dataclass(frozen=True, slots=True)
class RowShape:
    """One wire's words in rows."""

    withdrawal_states: Mapping[WithdrawalStatus, str]
    deposit_states: Mapping[DepositStatus, str]
    transaction_type: str | None
    tells_cancelable: bool
    one_of_a_coin: bool  # whether a single row is asked for together with its currency


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue, shape: RowShape) -> None:
        self._venue = venue
        self._shape = shape

    def withdrawals(self, parameters: JwtParameters) -> list[dict[str, Any]]:
        """A page, the newest row first unless asked otherwise."""
        rows = self._venue.withdrawals(_page(parameters))
        return _in_state(self._venue.shown(rows, self._withdrawal), parameters)

    def deposits(self, parameters: JwtParameters) -> list[dict[str, Any]]:
        """A page, the newest row first unless asked otherwise."""
        rows = self._venue.deposits(_page(parameters))
        return _in_state(self._venue.shown(rows, self._deposit), parameters)

    def withdrawal(self, parameters: JwtParameters) -> dict[str, Any]:
        """The one row of an id or a transaction; the newest when neither is named."""
        return self._one(parameters, self._venue.withdrawals, self._withdrawal, "withdraw_not_found")

    def deposit(self, parameters: JwtParameters) -> dict[str, Any]:
        """The one row of an id or a transaction; the newest when neither is named."""
        return self._one(parameters, self._venue.deposits, self._deposit, "deposit_not_found")

    def _one(
        self,
        parameters: JwtParameters,
        read: Callable[[Page], list[Row]],
        show: Callable[[Row], dict[str, Any]],
        missing: str,
    ) -> dict[str, Any]:
        coin = parameters.required("currency") if self._shape.one_of_a_coin else parameters.text("currency")
        key = parameters.text("uuid")
        page = Page(limit=1, coin=coin, ids=None if key is None else (key,), tx_hash=parameters.text("txid"))
        shown = self._venue.shown(read(page), show)
        if not shown:
            raise Refusal(missing, "There is no such row.", 404)
        return shown[0]

    def asked_for(self, key: str) -> dict[str, Any]:
        """A withdrawal as it is told to whoever asked for it, whatever lags and rollbacks histories show."""
        (row,) = [row for row in self._venue.desk.rows() if row["id"] == key]
        return self._withdrawal(dict(row))

    def _withdrawal(self, row: Row) -> dict[str, Any]:
        """`amount` arrives in full: the fee was taken on top of it."""
        status = WithdrawalStatus(row["status"])
        shown = {
            "type": "withdraw",
            "uuid": row["id"],
            "currency": row["coin"],
            "net_type": row["network"],
            "txid": row["tx_hash"] if row["broadcast"] else None,
            "state": self._shape.withdrawal_states[status],
            "created_at": _seoul(row["applied_ms"]),
            "done_at": _seoul(row["completed_ms"]),
            "amount": row["net"],
            "fee": row["fee"],
            "transaction_type": self._shape.transaction_type,
        }
        if self._shape.tells_cancelable:
            shown["is_cancelable"] = status is WithdrawalStatus.AWAITING_APPROVAL
        return shown

    def _deposit(self, row: Row) -> dict[str, Any]:
        return {
            "type": "deposit",
            "uuid": row["id"],
            "currency": row["coin"],
            "net_type": row["network"],
            "txid": row["tx_hash"],
            "state": self._shape.deposit_states[DepositStatus(row["status"])],
            "created_at": _seoul(row["inserted_ms"]),
            "done_at": _seoul(row["completed_ms"]),
            "amount": row["amount"],
            "fee": "0",
            "transaction_type": self._shape.transaction_type,
        }


def _page(parameters: JwtParameters) -> Page:
    limit, number = _within(parameters, "limit", _MAX_ROWS), _within(parameters, "page", 1)
    order, keys, hashes = parameters.text("order_by") or "desc", parameters.many("uuids"), parameters.many("txids")
    if order not in ("asc", "desc"):
        raise parameters.malformed("order_by")
    if limit > _MAX_ROWS:
        raise parameters.malformed("limit")
    if len(hashes) > 1 or (keys and hashes):
        raise parameters.malformed("txids")
    return Page(
        limit=limit,
        offset=limit * (number - 1),
        coin=parameters.text("currency"),
        ids=keys or None,
        tx_hash=hashes[0] if hashes else None,
        oldest_first=order == "asc",
    )


def _within(parameters: JwtParameters, name: str, usual: int) -> int:
    asked = parameters.whole(name)
    if asked == 0:
        raise parameters.malformed(name)
    return usual if asked is None else asked


def _in_state(rows: list[dict[str, Any]], parameters: JwtParameters) -> list[dict[str, Any]]:
    asked = parameters.text("state")
    return rows if asked is None else [row for row in rows if row["state"] == asked]


def _seoul(at_ms: int | None) -> str | None:
    """A time as these venues write it: in whole seconds of Korea's clock, which says so."""
    return None if at_ms is None else datetime.fromtimestamp(at_ms // 1000, _SEOUL).isoformat()
