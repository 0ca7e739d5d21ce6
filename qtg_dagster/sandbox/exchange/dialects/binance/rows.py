"""Binance's two histories: windows and pages that it allows, and its rows."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.dialects.binance.signing import BinanceParameters, utc_text
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal, fixed

_DAY_MS = 86_400_000
_MAX_ROWS = 1_000
_MAX_IDS = 45


class Histories:
    """Reads of one venue's withdrawals and deposits."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def withdrawals(self, parameters: BinanceParameters) -> list[dict[str, Any]]:
        """Newest first, by applyTime; with a withdrawOrderId the window is at most and by default 7 days."""
        order_id = parameters.text("withdrawOrderId")
        start, end = window(parameters, 90 if order_id is None else 7, self._venue.now_ms())
        asked = parameters.text("idList")
        ids = None if asked is None else tuple(asked.split(","))
        if ids is not None and len(ids) > _MAX_IDS:
            raise Refusal(-1102, f"Parameter 'idList' holds more than {_MAX_IDS} ids.")
        page = Page(
            limit=limit_of(parameters),
            offset=parameters.whole("offset") or 0,
            start_ms=start,
            end_ms=end,
            coin=parameters.text("coin"),
            status=parameters.whole("status"),
            order_id=order_id,
            ids=ids,
            told=False,
        )
        return self._venue.shown(self._venue.withdrawals(page), withdrawal)

    def deposits(self, parameters: BinanceParameters) -> list[dict[str, Any]]:
        """Newest first, by insertTime, within at most and by default 90 days."""
        start, end = window(parameters, 90, self._venue.now_ms())
        page = Page(
            limit=limit_of(parameters),
            offset=parameters.whole("offset") or 0,
            start_ms=start,
            end_ms=end,
            coin=parameters.text("coin"),
            status=parameters.whole("status"),
            tx_hash=parameters.text("txId"),
        )
        return self._venue.shown(self._venue.deposits(page), lambda row: _deposit(row, self._venue.config))


def window(parameters: BinanceParameters, days: int, now_ms: int) -> tuple[int, int]:
    end = parameters.whole("endTime")
    start = parameters.whole("startTime")
    end = now_ms if end is None else end
    start = end - days * _DAY_MS if start is None else start
    if end < start or end - start > days * _DAY_MS:
        raise Refusal(-4047, f"Time interval must be within 0-{days} days")
    return start, end


def limit_of(parameters: BinanceParameters) -> int:
    limit = parameters.whole("limit")
    limit = _MAX_ROWS if limit is None else limit
    if not 1 <= limit <= _MAX_ROWS:
        raise Refusal(-1102, f"Parameter 'limit' must be within 1-{_MAX_ROWS}.")
    return limit


def withdrawal(row: Row) -> dict[str, Any]:
    """A withdrawal as Binance's history shows it: `amount` is net, requested = amount + transactionFee."""
    shown: dict[str, Any] = {
        "id": row["id"],
        "amount": fixed(row["net"]),
        "transactionFee": row["fee"],
        "coin": row["coin"],
        "status": row["status"],
        "address": row["address"],
        "txId": row["tx_hash"] if row["broadcast"] else "",
        "applyTime": utc_text(row["applied_ms"]),
        "network": row["network"],
        "transferType": 0,
        "info": row["info"],
        "confirmNo": row["confirmations"],
        "walletType": 0,
        "txKey": "",
    }
    if row["order_id"] is not None:
        shown["withdrawOrderId"] = row["order_id"]
    if row["tag"] is not None:
        shown["addressTag"] = row["tag"]
    if row["completed_ms"] is not None:
        shown["completeTime"] = utc_text(row["completed_ms"])
    return shown


def _deposit(row: Row, config: VenueConfig) -> dict[str, Any]:
    """A deposit as Binance's history shows it; times in milliseconds, unlike withdrawals."""
    network = config.coins[row["coin"]].networks[row["network"]]
    shown: dict[str, Any] = {
        "id": row["id"],
        "amount": fixed(row["amount"]),
        "coin": row["coin"],
        "network": row["network"],
        "status": row["status"],
        "address": row["address"],
        "addressTag": "",
        "txId": row["tx_hash"],
        "insertTime": row["inserted_ms"],
        "transferType": 0,
        "confirmTimes": f"{min(row['confirmations'], network.confirmations)}/{network.confirmations}",
        "unlockConfirm": network.unlock_confirmations,
        "walletType": 0,
        "sourceAddress": row["source_address"],
    }
    if row["completed_ms"] is not None:
        shown["completeTime"] = row["completed_ms"]
    return shown
