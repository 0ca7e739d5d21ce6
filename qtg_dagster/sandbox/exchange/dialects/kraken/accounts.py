"""What Kraken says about its customer: balances, assets, ways in and out, saved addresses, the key's rights."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.kraken.names import Names, asset_name, method_name
from qtg_dagster.sandbox.exchange.dialects.kraken.signing import KrakenParameters
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import fixed


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._names = Names(venue)
        self._coins = venue.config.coins

    def assets(self, parameters: KrakenParameters) -> dict[str, Any]:
        """Every asset, with how far it is open."""
        asked = parameters.text("asset")
        chosen = list(self._coins) if asked is None else [self._names.coin(item) for item in asked.split(",")]
        return {asset_name(coin): self._asset(coin) for coin in chosen}

    def _asset(self, coin: str) -> dict[str, Any]:
        networks = self._coins[coin].networks
        deposits = any(self._venue.open_for_deposits(coin, key) for key in networks)
        withdrawals = any(self._venue.open_for_withdrawals(coin, key) for key in networks)
        status = {
            (True, True): "enabled",
            (True, False): "deposit_only",
            (False, True): "withdrawal_only",
            (False, False): "funding_temporarily_disabled",
        }[deposits, withdrawals]
        decimals = self._coins[coin].decimals
        return {"aclass": "currency", "altname": coin, "decimals": decimals, "display_decimals": 5, "status": status}

    def balances(self, _: KrakenParameters) -> dict[str, str]:
        """Everything that is the customer's, held or not."""
        return {asset: row["balance"] for asset, row in self._held().items()}

    def balances_with_holds(self, _: KrakenParameters) -> dict[str, dict[str, str]]:
        """The same, with what is held of it."""
        return self._held()

    def _held(self) -> dict[str, dict[str, str]]:
        shown = {}
        for coin in self._coins:
            own = self._venue.balance(coin)
            held = own.withdrawing + own.frozen
            total = own.free + held
            if total.base_units:
                row = {"balance": fixed(total.to_text(), 10), "hold_trade": fixed(held.to_text(), 10)}
                shown[asset_name(coin)] = row
        return shown

    def withdraw_methods(self, parameters: KrakenParameters) -> list[dict[str, Any]]:
        """The ways out that are open."""
        return [
            {
                "asset": asset_name(coin),
                "method": method_name(coin, key),
                "network": key,
                "minimum": network.withdraw_min,
                "fee": {"aclass": "currency", "asset": asset_name(coin), "fee": network.withdraw_fee},
            }
            for coin, key, network in self._names.ways(self._asked_coin(parameters))
            if self._venue.open_for_withdrawals(coin, key)
        ]

    def withdraw_addresses(self, parameters: KrakenParameters) -> list[dict[str, Any]]:
        """The address book."""
        coin, method = self._asked_coin(parameters), parameters.text("method")
        key, verified = parameters.text("key"), parameters.text("verified")
        return [
            {
                "address": item.address,
                "asset": asset_name(item.coin),
                "method": method_name(item.coin, item.network),
                "key": item.name,
                "verified": item.verified,
            }
            for item in self._venue.config.address_book
            if coin in (None, item.coin)
            and method in (None, method_name(item.coin, item.network))
            and key in (None, item.name)
            and (verified != "true" or item.verified)
        ]

    def deposit_methods(self, parameters: KrakenParameters) -> list[dict[str, Any]]:
        """The ways in that are open for an asset."""
        coin = self._names.coin(parameters.required("asset"))
        return [
            {"method": method_name(coin, key), "limit": False, "gen-address": True, "minimum": "0"}
            for _, key, _ in self._names.ways(coin)
            if self._venue.open_for_deposits(coin, key)
        ]

    def deposit_addresses(self, parameters: KrakenParameters) -> list[dict[str, Any]]:
        """The customer's addresses of an asset by one way."""
        coin, method = self._names.coin(parameters.required("asset")), parameters.required("method")
        found = [network.deposit_address for _, _, network in self._names.ways(coin, method)]
        if not found:
            raise Declined(Reason.UNKNOWN_NETWORK)
        return [{"address": address, "expiretm": "0", "new": False} for address in found]

    def key_info(self, _: KrakenParameters) -> dict[str, Any]:
        """What the key may do."""
        conditions = self._venue.conditions
        rights = ["query-funds"] * conditions.key_reads + ["withdraw-funds"] * conditions.key_withdraws
        return {
            "apiKeyName": "test",
            "apiKey": self._venue.config.api_key,
            "nonceWindow": 0,
            "permissions": rights,
            "ipAllowlist": ["203.0.113.7"] if conditions.ip_restricted else [],
            "validUntil": "0",
        }

    def _asked_coin(self, parameters: KrakenParameters) -> str | None:
        asset = parameters.text("asset")
        return None if asset is None else self._names.coin(asset)
