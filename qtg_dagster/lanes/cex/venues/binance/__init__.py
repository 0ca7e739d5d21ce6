"""Binance: the spot wallet's withdrawals and deposits, and local entities' withdrawals under the travel rule."""

from __future__ import annotations

from qtg_dagster.lanes.cex.venues.binance.rows import DEPOSIT_STATES, WITHDRAWAL_STATES
from qtg_dagster.lanes.cex.venues.binance.wire import ACCESS_CODES, NETWORK_ALIASES, REFUSALS, BinanceVenue

__all__ = [
    "ACCESS_CODES",
    "DEPOSIT_STATES",
    "NETWORK_ALIASES",
    "REFUSALS",
    "VENUE",
    "WITHDRAWAL_STATES",
    "BinanceVenue",
]

VENUE = BinanceVenue()
