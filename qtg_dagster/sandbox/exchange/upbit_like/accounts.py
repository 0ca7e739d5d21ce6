"""What these wires say about their customer: balances, wallets by network, terms, saved and own addresses, keys."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.upbit_like.signing import JwtParameters
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal

_STATES = {(True, True): "working", (True, False): "deposit_only", (False, True): "withdraw_only"}


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def balances(self, _: JwtParameters) -> list[dict[str, Any]]:
        """What is held of each coin; what is being withdrawn counts as locked."""
        return [self._balance(coin) for coin in self._coins]

    def _balance(self, coin: str) -> dict[str, Any]:
        own = self._venue.balance(coin)
        return {
            "currency": coin,
            "balance": own.free.to_text(),
            "locked": (own.withdrawing + own.frozen).to_text(),
            "avg_buy_price": "0",
            "avg_buy_price_modified": False,
            "unit_currency": "KRW",
        }

    def wallets(self, _: JwtParameters) -> list[dict[str, Any]]:
        """How far each coin is open on each network."""
        return [
            {
                "currency": coin,
                "wallet_state": self._state(coin, key),
                "block_state": "normal",
                "block_height": 1,
                "block_updated_at": "2024-07-14T13:43:57+09:00",
                "block_elapsed_minutes": 0,
                "net_type": key,
                "network_name": key,
            }
            for coin, listed in self._coins.items()
            for key in listed.networks
        ]

    def _state(self, coin: str, network: str) -> str:
        comes_in = self._venue.open_for_deposits(coin, network)
        return _STATES.get((comes_in, self._venue.open_for_withdrawals(coin, network)), "paused")

    def chance(self, parameters: JwtParameters) -> dict[str, Any]:
        """What a withdrawal of the coin on the network costs, and how much it may be."""
        coin, key = parameters.required("currency"), parameters.required("net_type")
        network = self._coins[coin].networks.get(key) if coin in self._coins else None
        if network is None:
            raise Declined(Reason.UNKNOWN_COIN if coin not in self._coins else Reason.UNKNOWN_NETWORK)
        step = self._venue.config.step_text(coin, key)
        can = self._venue.open_for_withdrawals(coin, key)
        support = ["deposit"] * self._venue.open_for_deposits(coin, key) + ["withdraw"] * can
        return {
            "member_level": {"security_level": 4, "fee_level": 0, "locked": False, "wallet_locked": False},
            "currency": {
                "code": coin,
                "withdraw_fee": network.withdraw_fee,
                "is_coin": True,
                "wallet_state": "working",
                "wallet_support": support,
            },
            "account": self._balance(coin),
            "withdraw_limit": {
                "currency": coin,
                "onetime": network.withdraw_max,
                "daily": None,
                "remaining_daily": "0.0",
                "minimum": network.withdraw_min,
                "fixed": len(step.partition(".")[2]),
                "can_withdraw": can,
            },
        }

    def saved_addresses(self, _: JwtParameters) -> list[dict[str, Any]]:
        """The addresses that withdrawals may go to, of all coins; one that is not proven is not shown."""
        return [
            {
                "currency": item.coin,
                "net_type": item.network,
                "network_name": item.network,
                "withdraw_address": item.address,
                "secondary_address": None,
                "exchange_name": item.name,
            }
            for item in self._venue.config.address_book
            if item.verified
        ]

    def own_address(self, parameters: JwtParameters) -> dict[str, Any]:
        """The customer's address of a coin on a network."""
        coin, key = parameters.required("currency"), parameters.required("net_type")
        for row in self.own_addresses(parameters):
            if (row["currency"], row["net_type"]) == (coin, key):
                return row
        raise Refusal("coin_address_not_found", "There is no such deposit address.", 404)

    def own_addresses(self, _: JwtParameters) -> list[dict[str, Any]]:
        """The customer's addresses of all coins."""
        return [
            {
                "currency": coin,
                "net_type": key,
                "deposit_address": network.deposit_address,
                "secondary_address": None,
            }
            for coin, listed in self._coins.items()
            for key, network in listed.networks.items()
        ]

    def keys(self, _: JwtParameters) -> list[dict[str, str]]:
        """The customer's keys and how long they are good; not what they may do."""
        return [{"access_key": self._venue.config.api_key, "expire_at": "2099-12-31T09:00:00+09:00"}]
