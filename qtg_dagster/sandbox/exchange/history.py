"""Time windows, filters and pages of the two histories."""

from __future__ import annotations

import sqlite3

from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal

_DAY_MS = 86_400_000
_MAX_ROWS = 1_000
_MAX_IDS = 45
_WITHDRAWALS = (
    "SELECT w.*, p.tx_hash, p.broadcast FROM withdrawals w LEFT JOIN payouts p ON p.withdrawal_id = w.id WHERE "
)
_WITHDRAWALS_ORDER = " ORDER BY w.applied_ms DESC, w.seq DESC LIMIT ? OFFSET ?"
_DEPOSITS = "SELECT * FROM deposits WHERE "
_DEPOSITS_ORDER = " ORDER BY inserted_ms DESC, seq DESC LIMIT ? OFFSET ?"


def withdrawal_history(
    ledger: Ledger, venue: str, parameters: Parameters, *, now_ms: int, lag_ms: int
) -> list[sqlite3.Row]:
    """Withdrawals newest first, by applyTime; with a withdrawOrderId the window is at most and by default 7 days."""
    order_id = parameters.text("withdrawOrderId")
    start, end = _window(parameters, 90 if order_id is None else 7, now_ms)
    tests: list[tuple[str, object]] = [
        ("w.venue = ?", venue),
        ("w.applied_ms >= ?", start),
        ("w.applied_ms <= ?", min(end, now_ms - lag_ms)),
        ("w.coin = ?", parameters.text("coin")),
        ("w.order_id = ?", order_id),
        ("w.status = ?", parameters.whole("status")),
    ]
    asked = parameters.text("idList")
    ids = [] if asked is None else asked.split(",")
    if len(ids) > _MAX_IDS:
        raise Refusal(-1102, f"Parameter 'idList' holds more than {_MAX_IDS} ids.")
    where, values = _bound(tests)
    if ids:
        where += f" AND w.id IN ({', '.join('?' * len(ids))})"
        values += ids
    return ledger.rows(_WITHDRAWALS + where + _WITHDRAWALS_ORDER, (*values, *_page(parameters)))


def deposit_history(
    ledger: Ledger, venue: str, parameters: Parameters, *, now_ms: int, lag_ms: int
) -> list[sqlite3.Row]:
    """Deposits newest first, by insertTime, within at most and by default 90 days."""
    start, end = _window(parameters, 90, now_ms)
    where, values = _bound(
        [
            ("venue = ?", venue),
            ("inserted_ms >= ?", start),
            ("inserted_ms <= ?", min(end, now_ms - lag_ms)),
            ("coin = ?", parameters.text("coin")),
            ("status = ?", parameters.whole("status")),
            ("tx_hash = ?", parameters.text("txId")),
        ]
    )
    return ledger.rows(_DEPOSITS + where + _DEPOSITS_ORDER, (*values, *_page(parameters)))


def _bound(tests: list[tuple[str, object]]) -> tuple[str, list[object]]:
    """The conditions that were given a value, and the values to bind."""
    given = [(test, value) for test, value in tests if value is not None]
    return " AND ".join(test for test, _ in given), [value for _, value in given]


def _window(parameters: Parameters, days: int, now_ms: int) -> tuple[int, int]:
    end = parameters.whole("endTime")
    start = parameters.whole("startTime")
    end = now_ms if end is None else end
    start = end - days * _DAY_MS if start is None else start
    if end < start or end - start > days * _DAY_MS:
        raise Refusal(-4047, f"Time interval must be within 0-{days} days")
    return start, end


def _page(parameters: Parameters) -> tuple[int, int]:
    limit = parameters.whole("limit")
    limit = _MAX_ROWS if limit is None else limit
    if not 1 <= limit <= _MAX_ROWS:
        raise Refusal(-1102, f"Parameter 'limit' must be within 1-{_MAX_ROWS}.")
    return limit, parameters.whole("offset") or 0
