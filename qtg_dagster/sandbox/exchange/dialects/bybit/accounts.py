"""What Bybit says about its customer: the funding account, coins by chain, addresses, the key's rights."""

from __future__ import annotations

from typing import Any

from qtg_dagster.sandbox.exchange.config import SavedAddress
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialects.bybit.rows import MAX_ROWS
from qtg_dagster.sandbox.exchange.dialects.bybit.signing import BybitParameters
from qtg_dagster.sandbox.exchange.venue import Venue


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._coins = venue.config.coins

    def coins(self, parameters: BybitParameters) -> dict[str, Any]:
        """One row per coin, its chains inside."""
        return {"rows": [self._coin(coin) for coin in self._asked(parameters)]}

    def _coin(self, coin: str) -> dict[str, Any]:
        networks = self._coins[coin].networks
        most = next(iter(networks.values())).withdraw_max
        chains = [self._chain(coin, key) for key in networks]
        return {"name": self._coins[coin].name or coin, "coin": coin, "remainAmount": most, "chains": chains}

    def _chain(self, coin: str, key: str) -> dict[str, str]:
        network = self._coins[coin].networks[key]
        step = self._venue.config.step_text(coin, key)
        return {
            "chain": key,
            "chainType": f"{key} network",
            "confirmation": str(network.confirmations),
            "safeConfirmNumber": str(max(network.confirmations, network.unlock_confirmations)),
            "withdrawFee": network.withdraw_fee,
            "withdrawPercentageFee": "0",
            "depositMin": "0",
            "withdrawMin": network.withdraw_min,
            "minAccuracy": str(len(step.partition(".")[2])),
            "chainDeposit": str(int(self._venue.open_for_deposits(coin, key))),
            "chainWithdraw": str(int(self._venue.open_for_withdrawals(coin, key))),
            "contractAddress": network.contract or "",
        }

    def funding(self, parameters: BybitParameters) -> dict[str, Any]:
        """Only the funding account is kept here; what is being withdrawn is in it, and cannot be transferred."""
        if parameters.required("accountType") != "FUND":
            return {"memberId": "", "accountType": "", "balance": []}
        shown = []
        for coin in self._asked(parameters):
            own = self._venue.balance(coin)
            total = (own.free + own.frozen + own.withdrawing).to_text()
            shown.append({"coin": coin, "walletBalance": total, "transferBalance": own.free.to_text(), "bonus": ""})
        return {"memberId": "1", "accountType": "FUND", "balance": shown}

    def unified(self, parameters: BybitParameters) -> dict[str, Any]:
        """The trading account, which holds nothing here."""
        return {"list": [{"accountType": parameters.required("accountType"), "coin": []}]}

    def deposit_addresses(self, parameters: BybitParameters) -> dict[str, Any]:
        """The coin's addresses, of one chain or of all."""
        coin, chain = parameters.required("coin"), parameters.text("chainType")
        if coin not in self._coins:
            raise Declined(Reason.UNKNOWN_COIN)
        chains = [
            {
                "chain": key,
                "chainType": f"{key} network",
                "addressDeposit": network.deposit_address,
                "tagDeposit": "",
                "contractAddress": (network.contract or "")[-6:],
                "batchReleaseLimit": "-1",
            }
            for key, network in self._coins[coin].networks.items()
            if chain in (None, key)
        ]
        return {"coin": coin, "chains": chains}

    def address_book(self, parameters: BybitParameters) -> dict[str, Any]:
        """The customer's saved addresses, page by page; none of them is for all coins of its chain."""
        coin, limit = parameters.text("coin"), parameters.whole("limit")
        limit, start = MAX_ROWS if limit is None else limit, parameters.whole("cursor") or 0
        if not 1 <= limit <= MAX_ROWS:
            raise parameters.malformed("limit")
        rows = [_saved(item) for item in self._venue.config.address_book if coin in (None, item.coin)]
        end = start + limit
        return {"rows": rows[start:end], "nextPageCursor": str(end) if end < len(rows) else ""}

    def key(self, _: BybitParameters) -> dict[str, Any]:
        """What the key may do, under `permissions` by field of business."""
        conditions = self._venue.conditions
        wallet = ["AccountTransfer", *["Withdraw"] * conditions.key_withdraws]
        addresses = ["203.0.113.7"] if conditions.ip_restricted else ["*"]
        return {"id": "1", "readOnly": 0, "permissions": {"Wallet": wallet}, "ips": addresses, "isMaster": True}

    def _asked(self, parameters: BybitParameters) -> list[str]:
        asked = parameters.text("coin")
        return list(self._coins) if asked is None else [coin for coin in asked.split(",") if coin in self._coins]


def _saved(item: SavedAddress) -> dict[str, Any]:
    return {
        "coin": item.coin,
        "chain": item.network,
        "address": item.address,
        "tag": "",
        "remark": item.name,
        "status": 0,
        "addressType": 0,
        "verified": int(item.verified),
        "createdAt": "1700000000",
    }
