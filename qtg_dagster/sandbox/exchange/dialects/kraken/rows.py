"""Kraken's two histories: a short plain list, or pages by a cursor, and its rows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.kraken.names import Names, asset_name, method_name
from qtg_dagster.sandbox.exchange.dialects.kraken.signing import KrakenParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row, position
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import fixed
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

_USUAL_ROWS = 25
_MOST_ROWS = 500
_WITHDRAWAL_STATES: Mapping[WithdrawalStatus, tuple[str, str | None]] = {
    WithdrawalStatus.EMAIL_SENT: ("Initial", "onhold"),
    WithdrawalStatus.AWAITING_APPROVAL: ("Initial", None),
    WithdrawalStatus.PROCESSING: ("Pending", None),
    WithdrawalStatus.COMPLETED: ("Success", None),
    WithdrawalStatus.REJECTED: ("Failure", None),
    WithdrawalStatus.FAILURE: ("Failure", None),
    WithdrawalStatus.CANCELLED: ("Failure", "canceled"),
}
_DEPOSIT_STATES: Mapping[DepositStatus, tuple[str, str | None]] = {
    DepositStatus.PENDING: ("Settled", None),  # seen, and waiting for more confirmations
    DepositStatus.CREDITED_LOCKED: ("Success", "on-hold"),
    DepositStatus.SUCCESS: ("Success", None),
    DepositStatus.AWAITING_USER: ("Settled", "on-hold"),
    DepositStatus.REJECTED: ("Failure", None),
    DepositStatus.WRONG: ("Failure", None),
}


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._names = Names(venue)

    def withdrawals(self, parameters: KrakenParameters) -> Any:
        """Newest first; with a cursor in pages, without one in a short list."""
        page = self._page(parameters)
        rows = self._venue.withdrawals(page)
        shown = self._venue.shown(rows, lambda row: _withdrawal(row, self._venue.config))
        return _paged("withdrawals", shown, rows, page.limit) if _wants_pages(parameters) else shown

    def deposits(self, parameters: KrakenParameters) -> Any:
        """Newest first; with a cursor in pages, without one in a short list."""
        page = self._page(parameters)
        rows = self._venue.deposits(page)
        shown = self._venue.shown(rows, _deposit)
        return _paged("deposit", shown, rows, page.limit) if _wants_pages(parameters) else shown

    def _page(self, parameters: KrakenParameters) -> Page:
        asset, method = parameters.text("asset"), parameters.text("method")
        coin = None if asset is None else self._names.coin(asset)
        network = None
        if method is not None:
            coin, network, _ = next(self._names.ways(coin, method), (coin or "", method, None))
        asked = parameters.whole("limit") if _wants_pages(parameters) else None
        limit = _USUAL_ROWS if asked is None else asked
        if not 1 <= limit <= _MOST_ROWS:
            raise parameters.malformed("limit")
        return Page(
            limit=limit,
            start_ms=_milliseconds(parameters, "start"),
            end_ms=_milliseconds(parameters, "end"),
            coin=coin,
            network=network,
            after=_after(parameters),
        )


def _wants_pages(parameters: KrakenParameters) -> bool:
    return parameters.text("cursor") not in (None, "false", "False")


def _after(parameters: KrakenParameters) -> tuple[int, int] | None:
    cursor = parameters.text("cursor")
    if cursor is None or cursor.lower() in ("true", "false"):
        return None
    try:
        at_ms, seq = base64.urlsafe_b64decode(cursor).decode().split(":")
        return int(at_ms), int(seq)
    except (binascii.Error, ValueError):
        raise parameters.malformed("cursor") from None


def _paged(name: str, shown: list[dict[str, Any]], rows: list[Row], limit: int) -> dict[str, Any]:
    """A page; the cursor to the next one is there only when this one is full."""
    if len(rows) < limit:
        return {name: shown, "next_cursor": None}
    at_ms, seq = position(rows)
    return {name: shown, "next_cursor": base64.urlsafe_b64encode(f"{at_ms}:{seq}".encode()).decode()}


def _milliseconds(parameters: KrakenParameters, name: str) -> int | None:
    """A time in seconds, perhaps with a fraction."""
    text = parameters.text(name)
    if text is None:
        return None
    try:
        return int(Decimal(text) * 1000)
    except (InvalidOperation, OverflowError, ValueError):
        raise parameters.malformed(name) from None


def _withdrawal(row: Row, config: VenueConfig) -> dict[str, Any]:
    """`amount` is what arrives: the fee was taken out of the amount asked for."""
    status, prop = _WITHDRAWAL_STATES[WithdrawalStatus(row["status"])]
    saved = [item for item in config.address_book if item.address == row["address"].lower()]
    shown = _common(row) | {
        "txid": row["tx_hash"] if row["broadcast"] else None,
        "amount": fixed(row["net"]),
        "fee": fixed(row["fee"]),
        "time": row["applied_ms"] // 1000,
        "status": status,
        "network": row["network"],
    }
    if saved:
        shown["key"] = saved[0].name
    return shown | ({} if prop is None else {"status-prop": prop})


def _deposit(row: Row) -> dict[str, Any]:
    status, prop = _DEPOSIT_STATES[DepositStatus(row["status"])]
    shown = _common(row) | {
        "txid": row["tx_hash"],
        "amount": fixed(row["amount"]),
        "fee": fixed("0"),
        "time": row["inserted_ms"] // 1000,
        "status": status,
        "originators": [row["source_address"]],
    }
    return shown | ({} if prop is None else {"status-prop": prop})


def _common(row: Row) -> dict[str, Any]:
    return {
        "method": method_name(row["coin"], row["network"]),
        "aclass": "currency",
        "asset": asset_name(row["coin"]),
        "refid": row["id"],
        "info": row["address"],
    }
