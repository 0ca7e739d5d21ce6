"""What OKX says about its customer: the funding account, coins by chain, deposit addresses, the key's rights."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.okx.signing import OkxParameters
from qtg_dagster.sandbox.exchange.venue import Venue


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def currencies(self, parameters: OkxParameters) -> list[dict[str, Any]]:
        """One row per coin and chain."""
        return [self._chain(coin, key) for coin in self._asked(parameters) for key in self._coins[coin].networks]

    def _chain(self, coin: str, key: str) -> dict[str, Any]:
        network = self._coins[coin].networks[key]
        step = self._venue.config.step_text(coin, key)
        return {
            "ccy": coin,
            "name": self._coins[coin].name or coin,
            "chain": f"{coin}-{key}",
            "ctAddr": (network.contract or "")[-6:],
            "canDep": self._venue.open_for_deposits(coin, key),
            "canWd": self._venue.open_for_withdrawals(coin, key),
            "canInternal": False,
            "mainNet": key == self._coins[coin].default_network(),
            "needTag": False,
            "fee": network.withdraw_fee,
            "minFee": network.withdraw_fee,
            "maxFee": network.withdraw_fee,
            "minWd": network.withdraw_min,
            "maxWd": network.withdraw_max,
            "minDep": "0",
            "wdTickSz": str(len(step.partition(".")[2])),
            "wdQuota": network.withdraw_max,
            "usedWdQuota": "0",
            "minDepArrivalConfirm": str(network.confirmations),
            "minWdUnlockConfirm": str(max(network.confirmations, network.unlock_confirmations)),
        }

    def balances(self, parameters: OkxParameters) -> list[dict[str, str]]:
        """The funding account; what is being withdrawn counts as frozen."""
        shown = []
        for coin in self._asked(parameters):
            own = self._venue.balance(coin)
            frozen = own.withdrawing + own.frozen
            total = own.free + frozen
            if total.base_units:
                row = {"ccy": coin, "bal": total.to_text(), "availBal": own.free.to_text()}
                shown.append(row | {"frozenBal": frozen.to_text()})
        return shown

    def deposit_addresses(self, parameters: OkxParameters) -> list[dict[str, Any]]:
        """The coin's addresses on all its chains."""
        coin = parameters.required("ccy")
        if coin not in self._coins:
            raise Declined(Reason.UNKNOWN_COIN)
        return [
            {
                "ccy": coin,
                "chain": f"{coin}-{key}",
                "addr": network.deposit_address,
                "ctAddr": (network.contract or "")[-6:],
                "to": "6",
                "selected": True,
            }
            for key, network in self._coins[coin].networks.items()
        ]

    def account_config(self, _: OkxParameters) -> list[dict[str, Any]]:
        """The account behind the key, with what the key may do in `perm`."""
        conditions = self._venue.conditions
        rights = ("read_only",) * conditions.key_reads + ("withdraw",) * conditions.key_withdraws
        address = "203.0.113.7" if conditions.ip_restricted else ""
        return [{"uid": "1", "mainUid": "1", "acctLv": "1", "label": "test", "ip": address, "perm": ",".join(rights)}]

    def _asked(self, parameters: OkxParameters) -> list[str]:
        asked = parameters.text("ccy")
        return list(self._coins) if asked is None else [coin for coin in asked.split(",") if coin in self._coins]
