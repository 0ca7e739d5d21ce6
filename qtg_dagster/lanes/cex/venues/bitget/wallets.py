"""Bitget's wallets: how each tells what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.readings import decimal, field
from qtg_dagster.lanes.cex.venue import Call, CoinBalance
from qtg_dagster.lanes.cex.venues.bitget.envelope import coin_of, rows_of

_FUTURES = {"usdt_futures": "USDT-FUTURES", "usdc_futures": "USDC-FUTURES", "coin_futures": "COIN-FUTURES"}
#: Beside the spot wallet, which withdrawals are paid from.
CALLS: Mapping[str, Call] = {
    "funding": Call("privateSpotGetV2AccountFundingAssets"),
    "crossed_margin": Call("privateMarginGetV2MarginCrossedAccountAssets"),
    "isolated_margin": Call("privateMarginGetV2MarginIsolatedAccountAssets"),
    **{name: Call("privateMixGetV2MixAccountAccounts", {"productType": product}) for name, product in _FUTURES.items()},
}


def read(wallet: str, body: Any) -> tuple[CoinBalance, ...]:
    """What is owned: loans are no balance. A coin of several isolated pairs is told once."""
    read_one = _futures if wallet in _FUTURES else _margin if wallet.endswith("_margin") else _funding
    totals: dict[str, CoinBalance] = {}
    for row in rows_of(body, wallet):
        one = read_one(row)
        seen = totals.get(one.coin, CoinBalance(one.coin, Decimal(0), Decimal(0), Decimal(0)))
        totals[one.coin] = replace(one, free=one.free + seen.free, locked=one.locked + seen.locked)
    return tuple(totals.values())


def balance(row: Mapping[str, Any], *locked: str) -> CoinBalance:
    return CoinBalance(
        coin=coin_of(row, "coin"),
        free=decimal(field(row, "available", "assets"), "available"),
        locked=sum((decimal(row.get(name) or "0", name) for name in locked), Decimal(0)),
        withdrawing=Decimal(0),
    )


def _funding(row: Mapping[str, Any]) -> CoinBalance:
    return balance(row, "frozen")


def _margin(row: Mapping[str, Any]) -> CoinBalance:
    found = balance(row, "frozen")
    owed = sum((decimal(row.get(name) or "0", name) for name in ("borrow", "interest")), Decimal(0))
    return replace(found, free=max(found.free - owed, Decimal(0)))


def _futures(row: Mapping[str, Any]) -> CoinBalance:
    """What is not available stands behind orders and positions; losses may have eaten more than that."""
    free = decimal(field(row, "available", "accounts"), "available")
    equity = str(field(row, "accountEquity", "accounts"))
    held = Decimal(0) if equity.startswith("-") else max(decimal(equity, "accountEquity") - free, Decimal(0))
    return CoinBalance(coin_of(row, "marginCoin"), free, held, Decimal(0))
