"""What Bitget says about its customer: the spot account, coins by chain, deposit addresses, the key's rights."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.bitget.names import chain_name, network_named
from qtg_dagster.sandbox.exchange.dialects.bitget.signing import BitgetParameters
from qtg_dagster.sandbox.exchange.venue import Venue


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def coins(self, parameters: BitgetParameters) -> list[dict[str, Any]]:
        """One entry per coin with its chains; every value is text, truth too."""
        return [
            {
                "coinId": str(number),
                "coin": coin,
                "transfer": "true",
                "chains": [self._chain(coin, key) for key in self._coins[coin].networks],
                "areaCoin": "no",
            }
            for number, coin in enumerate(self._coins, 1)
            if parameters.text("coin") in (None, coin)
        ]

    def _chain(self, coin: str, key: str) -> dict[str, str]:
        network = self._coins[coin].networks[key]
        step = self._venue.config.step_text(coin, key)
        return {
            "chain": chain_name(coin, key),
            "needTag": "false",
            "withdrawable": _truth(self._venue.open_for_withdrawals(coin, key)),
            "rechargeable": _truth(self._venue.open_for_deposits(coin, key)),
            "withdrawFee": network.withdraw_fee,
            "extraWithdrawFee": "0",
            "depositConfirm": str(network.confirmations),
            "withdrawConfirm": str(max(network.confirmations, network.unlock_confirmations)),
            "minDepositAmount": "0",
            "minWithdrawAmount": network.withdraw_min,
            "browserUrl": "",
            "contractAddress": network.contract or "",
            "withdrawStep": "0",
            "withdrawMinScale": str(len(step.partition(".")[2])),
            "congestion": "normal",
        }

    def assets(self, parameters: BitgetParameters) -> list[dict[str, str]]:
        """The spot account; what is being withdrawn counts as frozen. Empty coins are left out unless asked for."""
        asked, shown = parameters.text("coin"), []
        for coin in self._coins if asked is None else [asked] if asked in self._coins else []:
            own = self._venue.balance(coin)
            frozen = own.withdrawing + own.frozen
            if asked or parameters.text("assetType") == "all" or (own.free + frozen).base_units:
                amounts = {"available": own.free.to_text(), "frozen": frozen.to_text(), "locked": "0"}
                shown.append({"coin": coin, **amounts, "limitAvailable": "0", "uTime": str(self._venue.now_ms())})
        return shown

    def other_wallet(self, _: BitgetParameters) -> list[dict[str, str]]:
        """Funding, margin and futures accounts: there, and empty."""
        return []

    def deposit_address(self, parameters: BitgetParameters) -> dict[str, Any]:
        """The coin's address on a chain, or on its main one."""
        coin = parameters.required("coin")
        if coin not in self._coins:
            raise Declined(Reason.UNKNOWN_COIN)
        asked = parameters.text("chain")
        key = self._coins[coin].default_network() if asked is None else network_named(self._venue.config, coin, asked)
        if key is None:
            raise Declined(Reason.UNKNOWN_NETWORK)
        address = self._coins[coin].networks[key].deposit_address
        return {"address": address, "chain": chain_name(coin, key), "coin": coin, "tag": "", "url": ""}

    def info(self, _: BitgetParameters) -> dict[str, Any]:
        """The account behind the key, with what the key may do in `authorities`."""
        conditions = self._venue.conditions
        rights = ["stor", "wtor"] * conditions.key_reads + ["wwow"] * conditions.key_withdraws
        return {
            "userId": "1",
            "inviterId": "",
            "ips": "203.0.113.7" if conditions.ip_restricted else "",
            "authorities": rights,
            "parentId": 1,
            "traderType": "not_trader",
            "channelCode": "",
            "channel": "",
            "regisTime": "1246566789345",
        }


def _truth(value: bool) -> str:
    return "true" if value else "false"
