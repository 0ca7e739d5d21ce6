"""What Coinbase says about its customer: one account a currency, its addresses, the key's rights."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.coinbase.signing import CoinbaseParameters
from qtg_dagster.sandbox.exchange.venue import Venue

_MAX_ACCOUNTS = 100


class Accounts:
    """Reads of one venue's customer; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def accounts(self, parameters: CoinbaseParameters) -> dict[str, Any]:
        """All accounts, page by page."""
        limit = parameters.whole("limit") or 25
        if limit > _MAX_ACCOUNTS:
            raise parameters.malformed("limit")
        coins, after = list(self._coins), parameters.text("starting_after")
        if after is not None:
            coins = coins[[_id(coin) for coin in coins].index(after) + 1 :]
        shown = coins[:limit]
        more = f"/v2/accounts?limit={limit}&starting_after={_id(shown[-1])}" if len(coins) > limit else None
        return {"pagination": {"limit": limit, "next_uri": more}, "data": [self._account(coin) for coin in shown]}

    def account(self, parameters: CoinbaseParameters) -> dict[str, Any]:
        """The primary account of a currency."""
        return {"data": self._account(self._asked(parameters))}

    def _account(self, coin: str) -> dict[str, Any]:
        networks = self._coins[coin].networks
        step = self._venue.config.step_text(coin, next(iter(networks)))
        currency = {
            "code": coin,
            "name": self._coins[coin].name or coin,
            "exponent": len(step.partition(".")[2]),
            "type": "crypto",
            "address_regex": "^(?:0x)?[0-9a-fA-F]{40}$",
        }
        return {
            "id": _id(coin),
            "name": f"{coin} Wallet",
            "primary": True,
            "type": "wallet",
            "currency": currency,
            "balance": {"amount": self._venue.balance(coin).free.to_text(), "currency": coin},
            "allow_deposits": all(self._venue.open_for_deposits(coin, key) for key in networks),
            "allow_withdrawals": all(self._venue.open_for_withdrawals(coin, key) for key in networks),
            "resource": "account",
        }

    def addresses(self, parameters: CoinbaseParameters) -> dict[str, Any]:
        """The currency's addresses."""
        coin = self._asked(parameters)
        rows = [
            {"id": _id(f"{coin}-{key}"), "address": network.deposit_address, "network": key, "resource": "address"}
            for key, network in self._coins[coin].networks.items()
        ]
        return {"pagination": {"limit": len(rows), "next_uri": None}, "data": rows}

    def key(self, _: CoinbaseParameters) -> dict[str, Any]:
        """What the key may do."""
        may = self._venue.conditions.key_withdraws
        return {"can_view": True, "can_trade": False, "can_transfer": may, "portfolio_type": "DEFAULT"}

    def _asked(self, parameters: CoinbaseParameters) -> str:
        coin = parameters.place["account"]
        if coin not in self._coins:
            raise Declined(Reason.UNKNOWN_COIN)
        return coin


def _id(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, name))
