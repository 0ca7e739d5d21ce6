"""What KuCoin says about its customer: accounts by kind, chains of a coin, what is left of a day, the key."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.kucoin.signing import KucoinParameters
from qtg_dagster.sandbox.exchange.venue import Venue

#: What the venue calls the chains whose name is not their id in capitals.
_NAMES = {"eth": "ERC20", "trx": "TRC20", "bsc": "BEP20"}
_KINDS = ("main", "trade")


def chain_name(chain: str) -> str:
    """The name that some answers have in place of the chain's id."""
    return _NAMES.get(chain, chain.upper())


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def currency(self, parameters: KucoinParameters) -> dict[str, Any]:
        """A coin with its chains."""
        coin = self._known(parameters.place["currency"])
        return {
            "currency": coin,
            "name": coin,
            "fullName": self._coins[coin].name or coin,
            "precision": self._coins[coin].decimals,
            "confirms": None,
            "contractAddress": None,
            "isMarginEnabled": False,
            "isDebitEnabled": False,
            "chains": [self._chain(coin, key) for key in self._coins[coin].networks],
        }

    def _chain(self, coin: str, key: str) -> dict[str, Any]:
        network = self._coins[coin].networks[key]
        return {
            "chainName": chain_name(key),
            "withdrawalMinSize": network.withdraw_min,
            "depositMinSize": None,
            "withdrawFeeRate": "0",
            "withdrawalMinFee": network.withdraw_fee,
            "isWithdrawEnabled": self._venue.open_for_withdrawals(coin, key),
            "isDepositEnabled": self._venue.open_for_deposits(coin, key),
            "confirms": max(network.confirmations, network.unlock_confirmations),
            "preConfirms": network.confirmations,
            "contractAddress": network.contract or "",
            "withdrawPrecision": self._decimals(coin, key),
            "maxWithdraw": network.withdraw_max,
            "maxDeposit": None,
            "needTag": False,
            "chainId": key,
        }

    def _decimals(self, coin: str, key: str) -> int:
        return len(self._venue.config.step_text(coin, key).partition(".")[2])

    def quotas(self, parameters: KucoinParameters) -> dict[str, Any]:
        """What is left of the day for a coin on a chain."""
        coin = self._known(parameters.required("currency"))
        key = parameters.text("chain") or self._coins[coin].default_network()
        if key not in self._coins[coin].networks:
            raise Declined(Reason.UNKNOWN_NETWORK)
        network = self._coins[coin].networks[key]
        return {
            "currency": coin,
            "quotaCurrency": "USDT",
            "limitQuotaCurrencyAmount": "999999.00000000",
            "usedQuotaCurrencyAmount": "0",
            "remainAmount": network.withdraw_max,
            "availableAmount": self._venue.balance(coin).free.to_text(),
            "withdrawMinFee": network.withdraw_fee,
            "innerWithdrawMinFee": "0",
            "withdrawMinSize": network.withdraw_min,
            "isWithdrawEnabled": self._venue.open_for_withdrawals(coin, key),
            "precision": self._decimals(coin, key),
            "chain": chain_name(key),
            "reason": None,
            "lockedAmount": "0",
        }

    def accounts(self, parameters: KucoinParameters) -> list[dict[str, str]]:
        """All is in the main account; what is being withdrawn is on hold there."""
        asked, kind = parameters.text("currency"), parameters.text("type")
        if kind not in (None, *_KINDS):
            raise parameters.malformed("type")
        shown = []
        for number, coin in enumerate(self._coins):
            own = self._venue.balance(coin)
            holds = own.withdrawing + own.frozen
            total = own.free + holds
            if asked in (None, coin) and kind in (None, "main") and total.base_units:
                row = {"id": f"{number:024x}", "currency": coin, "type": "main", "balance": total.to_text()}
                shown.append(row | {"available": own.free.to_text(), "holds": holds.to_text()})
        return shown

    def deposit_addresses(self, parameters: KucoinParameters) -> list[dict[str, Any]]:
        """The coin's addresses on all its chains, or on the one that is asked for."""
        coin, asked = self._known(parameters.required("currency")), parameters.text("chain")
        return [
            {
                "address": network.deposit_address,
                "memo": "",
                "chainId": key,
                "to": "MAIN",
                "expirationDate": 0,
                "currency": coin,
                "contractAddress": network.contract or "",
                "chainName": chain_name(key),
            }
            for key, network in self._coins[coin].networks.items()
            if asked in (None, key)
        ]

    def api_key(self, _: KucoinParameters) -> dict[str, Any]:
        """The key, and what it may do."""
        conditions = self._venue.conditions
        rights = ("General",) * conditions.key_reads + ("Withdrawal",) * conditions.key_withdraws
        return {
            "remark": "desk",
            "apiKey": self._venue.config.api_key,
            "apiVersion": 3,
            "permission": ",".join(rights),
            "ipWhitelist": "203.0.113.7" if conditions.ip_restricted else "",
            "createdAt": self._venue.now_ms() - 86_400_000,
            "uid": 1,
            "isMaster": True,
        }

    def status(self, _: KucoinParameters) -> dict[str, str]:
        """Whether the venue is at work."""
        return {"status": "close" if self._venue.conditions.maintenance else "open", "msg": ""}

    def _known(self, coin: str) -> str:
        if coin not in self._coins:
            raise Declined(Reason.UNKNOWN_COIN)
        return coin
