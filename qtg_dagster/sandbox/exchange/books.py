"""The venue's books: append-only moves between buckets; balances are their sum and nothing else."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.sandbox.exchange.config import VenueConfig
from qtg_dagster.sandbox.exchange.ledger import Ledger


class Bucket(StrEnum):
    """Where value stands. The first three are the customer's, the others are the world and the venue."""

    FREE = "free"
    WITHDRAWING = "withdrawing"
    FROZEN = "frozen"
    OPENING = "opening"
    OUTSIDE = "outside"
    FEES = "fees"


CUSTOMER_BUCKETS = (Bucket.FREE, Bucket.WITHDRAWING, Bucket.FROZEN)


class MoveKind(StrEnum):
    """Why value moved; one move of a kind per reference, ever."""

    OPENING = "opening"
    WITHDRAWAL_HOLD = "withdrawal_hold"
    WITHDRAWAL_PAID = "withdrawal_paid"
    WITHDRAWAL_FEE = "withdrawal_fee"
    WITHDRAWAL_RETURN = "withdrawal_return"
    DEPOSIT_CREDIT = "deposit_credit"
    DEPOSIT_UNLOCK = "deposit_unlock"


@dataclass(frozen=True, slots=True)
class Balance:
    """A customer's holding of one coin."""

    free: Amount
    withdrawing: Amount
    frozen: Amount


def true_ms() -> int:
    """The true time, which no venue's clock has a say in."""
    return time.time_ns() // 1_000_000


class Books:
    """Posts moves and answers balances. Raises `sqlite3.IntegrityError` for a second move of a kind and reference."""

    def __init__(self, ledger: Ledger, venues: dict[str, VenueConfig]) -> None:
        self._ledger = ledger
        self._venues = venues
        self._units: dict[tuple[str, str, str], int] = {}
        ledger.on_rollback(self.reload)
        self.reload()

    def reload(self) -> None:
        """Sum all moves again."""
        self._units = defaultdict(int)
        for row in self._ledger.rows("SELECT venue, coin, amount, source, target FROM moves"):
            venue = self._venues.get(row["venue"])
            if venue is not None and row["coin"] in venue.coins:
                units = venue.amount(row["coin"], row["amount"]).base_units
                self._units[row["venue"], row["coin"], row["source"]] -= units
                self._units[row["venue"], row["coin"], row["target"]] += units

    def open_accounts(self) -> None:
        """Post each initial balance once in the ledger's life."""
        with self._ledger.transaction():
            for key, venue in self._venues.items():
                for coin, text in venue.initial_balances.items():
                    amount = venue.amount(coin, text)
                    known = self._ledger.row(
                        "SELECT 1 FROM moves WHERE venue = ? AND kind = ? AND reference = ?", (key, "opening", coin)
                    )
                    if known is None and amount.base_units:
                        self.post(key, MoveKind.OPENING, amount, Bucket.OPENING, Bucket.FREE, coin)

    def post(self, venue: str, kind: MoveKind, amount: Amount, source: Bucket, target: Bucket, reference: str) -> None:
        """Append one move, inside a transaction; a customer's bucket never goes below zero."""
        coin = amount.asset.symbol
        if amount.base_units < 0:
            raise ValueError(f"{kind} of {amount}: a move has a direction, not a sign")
        if source in CUSTOMER_BUCKETS and self._units[venue, coin, source] < amount.base_units:
            raise ValueError(f"{kind} of {amount} overdraws {venue}'s {source}")
        self._ledger.write(
            "INSERT INTO moves (at_ms, venue, coin, kind, amount, source, target, reference)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (true_ms(), venue, coin, kind.value, amount.to_text(), source, target, reference),
        )
        self._units[venue, coin, source] -= amount.base_units
        self._units[venue, coin, target] += amount.base_units

    def balance(self, venue: str, coin: str) -> Balance:
        """The customer's holding of a coin the venue lists."""
        asset = self._venues[venue].asset(coin)
        return Balance(*(Amount(asset, self._units[venue, coin, bucket]) for bucket in CUSTOMER_BUCKETS))

    def balance_before(self, venue: str, coin: str, at_ms: int) -> Balance:
        """The customer's holding as it was then, by the true time of the moves."""
        asset = self._venues[venue].asset(coin)
        rows = self._ledger.rows(
            "SELECT amount, source, target FROM moves WHERE venue = ? AND coin = ? AND at_ms <= ?", (venue, coin, at_ms)
        )
        units = dict.fromkeys(Bucket, 0)
        for row in rows:
            moved = Amount.parse(asset, row["amount"]).base_units
            units[Bucket(row["source"])] -= moved
            units[Bucket(row["target"])] += moved
        return Balance(*(Amount(asset, units[bucket]) for bucket in CUSTOMER_BUCKETS))

    def moves(self, *, venue: str | None = None, after: int = 0) -> list[dict[str, Any]]:
        """The moves in the order they were posted, as plain rows."""
        rows = self._ledger.rows(
            "SELECT * FROM moves WHERE seq > ? AND (? IS NULL OR venue = ?) ORDER BY seq", (after, venue, venue)
        )
        return [dict(row) for row in rows]
