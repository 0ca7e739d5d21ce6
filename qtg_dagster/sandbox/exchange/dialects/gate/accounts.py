"""What Gate says about its customer: the spot account, chains and fees of a coin, addresses, the account's keys."""

from __future__ import annotations

from typing import Any, NoReturn

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.gate.signing import GateParameters
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def chains(self, parameters: GateParameters) -> list[dict[str, Any]]:
        """One row per chain of the coin; fees are told elsewhere."""
        coin = self._coin(parameters)
        return [self._chain(coin, key) for key in self._coins[coin].networks]

    def _chain(self, coin: str, key: str) -> dict[str, Any]:
        step = self._venue.config.step_text(coin, key)
        return {
            "chain": key,
            "name_cn": key,
            "name_en": key,
            "contract_address": self._coins[coin].networks[key].contract or "",
            "is_disabled": 0,
            "is_deposit_disabled": int(not self._venue.open_for_deposits(coin, key)),
            "is_withdraw_disabled": int(not self._venue.open_for_withdrawals(coin, key)),
            "is_tag": 0,
            "decimal": str(len(step.partition(".")[2])),
        }

    def withdraw_status(self, parameters: GateParameters) -> list[dict[str, Any]]:
        """Fees by chain, and limits that are the same on every chain of a coin."""
        asked = parameters.text("currency")
        return [self._terms(coin) for coin in self._coins if asked in (None, coin)]

    def _terms(self, coin: str) -> dict[str, Any]:
        networks = self._coins[coin].networks
        usual = networks[self._coins[coin].default_network()]
        return {
            "currency": coin,
            "name": self._coins[coin].name or coin,
            "name_cn": self._coins[coin].name or coin,
            "deposit": "0",
            "withdraw_percent": "0%",
            "withdraw_fix": usual.withdraw_fee,
            "withdraw_day_limit": usual.withdraw_max,
            "withdraw_day_limit_remain": usual.withdraw_max,
            "withdraw_amount_mini": usual.withdraw_min,
            "withdraw_eachtime_limit": usual.withdraw_max,
            "withdraw_fix_on_chains": {key: network.withdraw_fee for key, network in networks.items()},
            "withdraw_percent_on_chains": dict.fromkeys(networks, "0%"),
        }

    def balances(self, parameters: GateParameters) -> list[dict[str, Any]]:
        """The spot account; what is being withdrawn counts as locked."""
        asked, shown = parameters.text("currency"), []
        for coin in self._coins:
            own = self._venue.balance(coin)
            locked = own.withdrawing + own.frozen
            if asked in (None, coin) and (own.free + locked).base_units:
                shown.append({"currency": coin, "available": own.free.to_text(), "locked": locked.to_text()})
        return shown

    def never_opened(self, _: GateParameters) -> NoReturn:
        """Contracts are traded nowhere here, so nobody has an account for them."""
        raise Refusal("USER_NOT_FOUND", "please transfer funds first to create the account")

    def deposit_address(self, parameters: GateParameters) -> dict[str, Any]:
        """The coin's addresses on all its chains."""
        coin = self._coin(parameters)
        networks = self._coins[coin].networks
        return {
            "currency": coin,
            "address": networks[self._coins[coin].default_network()].deposit_address,
            "min_deposit_amount": "0",
            "min_confirms": networks[self._coins[coin].default_network()].confirmations,
            "multichain_addresses": [
                {
                    "chain": key,
                    "address": network.deposit_address,
                    "payment_id": "",
                    "payment_name": "",
                    "obtain_failed": 0,
                }
                for key, network in networks.items()
            ],
        }

    def saved_addresses(self, parameters: GateParameters) -> list[dict[str, str]]:
        """The coin's entries in the address book."""
        coin = self._coin(parameters)
        return [
            {
                "currency": coin,
                "chain": saved.network,
                "address": saved.address,
                "name": saved.name,
                "tag": "",
                "verified": str(int(saved.verified)),
            }
            for saved in self._venue.config.address_book
            if saved.coin == coin
        ]

    def main_keys(self, _: GateParameters) -> list[dict[str, Any]]:
        """The account's keys, each named by how it begins, with what it may do."""
        conditions, now = self._venue.conditions, self._venue.now_ms() // 1000
        rights = {"account": True, "spot": True, "wallet": True, "withdrawal": not conditions.key_withdraws}
        return [
            {
                "state": 1,
                "mode": 1,
                "name": "desk",
                "user_id": 1,
                "perms": [{"name": name, "read_only": only} for name, only in rights.items()],
                "ip_whitelist": ["203.0.113.7"] if conditions.ip_restricted else [],
                "currency_pairs": [],
                "key": f"{self._venue.config.api_key[:8]}*****",
                "created_at": now - 86_400,
                "update_at": now - 86_400,
                "last_access": now,
            }
        ]

    def _coin(self, parameters: GateParameters) -> str:
        coin = parameters.required("currency")
        if coin not in self._coins:
            raise Declined(Reason.UNKNOWN_COIN)
        return coin
