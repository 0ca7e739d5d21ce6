"""Coinbase's record: all that happened in one account, newest first, a hundred rows at most, after a row's id."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.dialects.coinbase.signing import CoinbaseParameters
from qtg_dagster.sandbox.exchange.histories import Page, Row
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

MAX_ROWS = 100
_ALL = 1_000_000
_WITHDRAWAL_WORDS: Mapping[WithdrawalStatus, str] = {
    WithdrawalStatus.EMAIL_SENT: "waiting_for_signature",
    WithdrawalStatus.AWAITING_APPROVAL: "waiting_for_clearing",
    WithdrawalStatus.PROCESSING: "pending",
    WithdrawalStatus.COMPLETED: "completed",
    WithdrawalStatus.REJECTED: "expired",
    WithdrawalStatus.FAILURE: "failed",
    WithdrawalStatus.CANCELLED: "canceled",
}
_DEPOSIT_WORDS: Mapping[DepositStatus, str] = {
    DepositStatus.PENDING: "pending",
    DepositStatus.SUCCESS: "completed",
    DepositStatus.CREDITED_LOCKED: "waiting_for_clearing",
    DepositStatus.AWAITING_USER: "waiting_for_signature",
    DepositStatus.REJECTED: "failed",
    DepositStatus.WRONG: "expired",
}


class Records:
    """Reads of what happened in one venue's accounts."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def transactions(self, parameters: CoinbaseParameters) -> dict[str, Any]:
        """Withdrawals and deposits of one currency in one list."""
        coin = parameters.place["account"]
        if coin not in self._venue.config.coins:
            raise Declined(Reason.UNKNOWN_COIN)
        limit = parameters.whole("limit")
        limit = 25 if limit is None else limit
        if not 1 <= limit <= MAX_ROWS:
            raise parameters.malformed("limit")
        rows = self._all(coin)
        ids = [row["id"] for row in rows]
        after = parameters.text("starting_after")
        if after is not None and after not in ids:
            raise parameters.malformed("starting_after")
        start = 0 if after is None else ids.index(after) + 1
        shown = rows[start : start + limit]
        more = start + limit < len(rows)
        follows = f"/v2/accounts/{coin}/transactions?limit={limit}&starting_after={shown[-1]['id']}" if more else None
        return {"pagination": {"limit": limit, "order": "desc", "next_uri": follows}, "data": shown}

    def _all(self, coin: str) -> list[dict[str, Any]]:
        conditions = self._venue.conditions
        if conditions.empty_history_times:  # one answer tells of both histories, so it counts once
            left = conditions.empty_history_times - 1
            self._venue.conditions = conditions.model_copy(update={"empty_history_times": left})
            return []
        out = self._venue.withdrawals(Page(limit=_ALL, coin=coin))
        came = self._venue.deposits(Page(limit=_ALL, coin=coin))
        told = [(row["at_ms"], shown) for row, shown in zip(out, self._venue.shown(out, withdrawal), strict=True)]
        told += [(row["at_ms"], shown) for row, shown in zip(came, self._venue.shown(came, _deposit), strict=True)]
        return [row for _, row in sorted(told, key=lambda item: -item[0])]

    def submitted(self, key: str) -> dict[str, Any]:
        """The row of a withdrawal, whatever histories tell."""
        (row,) = self._venue.desk.rows_of(key)
        return withdrawal({**dict(row), "tx_hash": None, "broadcast": 0})


def withdrawal(row: Row) -> dict[str, Any]:
    """What leaves the account is below zero; the hash is there once it was broadcast."""
    taken = _sum(row)
    network = {
        "status": "confirmed" if row["broadcast"] else "pending",
        "network_name": row["network"],
        "transaction_fee": {"amount": row["fee"], "currency": row["coin"]},
        "transaction_amount": {"amount": row["net"], "currency": row["coin"]},
    }
    if row["broadcast"]:
        network["hash"] = row["tx_hash"]
    return {
        "id": row["id"],
        "type": "send",
        "status": _WITHDRAWAL_WORDS[WithdrawalStatus(row["status"])],
        "amount": {"amount": f"-{taken}", "currency": row["coin"]},
        "created_at": _iso(row["applied_ms"]),
        "resource": "transaction",
        "network": network,
        "to": {"resource": "address", "address": row["address"], "currency": row["coin"]},
        "description": row["info"] or None,
        "idem": row["order_id"] or "",
    }


def _deposit(row: Row) -> dict[str, Any]:
    network = {"status": "confirmed", "network_name": row["network"], "hash": row["tx_hash"]}
    return {
        "id": row["id"],
        "type": "send",
        "status": _DEPOSIT_WORDS[DepositStatus(row["status"])],
        "amount": {"amount": row["amount"], "currency": row["coin"]},
        "created_at": _iso(row["inserted_ms"]),
        "resource": "transaction",
        "network": network,
        "from": {"resource": "address", "address": row["source_address"], "currency": row["coin"]},
    }


def _sum(row: Row) -> str:
    asset = Asset(row["coin"], 18)
    units = sum(Amount.parse(asset, row[name]).base_units for name in ("net", "fee"))
    return Amount(asset, units).to_text()


def _iso(at_ms: int) -> str:
    """In whole seconds, as the venue tells them."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
