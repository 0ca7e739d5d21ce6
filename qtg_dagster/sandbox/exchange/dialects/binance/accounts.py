"""What Binance says about its customer: balances in three shapes, coins and networks, rights, deposit addresses."""

from __future__ import annotations

from typing import Any

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.sandbox.exchange.books import Balance
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Parameters, Refusal, fixed


class Accounts:
    """Reads of one venue's customer account; nothing here changes anything."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._config = venue.config

    def account(self, parameters: Parameters) -> dict[str, Any]:
        """The spot account; `locked` is everything that cannot be used: being withdrawn, or not unlocked yet."""
        balances = [
            {
                "asset": coin,
                "free": fixed(own.free.to_text()),
                "locked": fixed((own.withdrawing + own.frozen).to_text()),
            }
            for coin in self._config.coins
            if not _is_zero(own := self._venue.balance(coin)) or parameters.text("omitZeroBalances") != "true"
        ]
        return {
            "makerCommission": 10,
            "takerCommission": 10,
            "buyerCommission": 0,
            "sellerCommission": 0,
            "canTrade": False,
            "canWithdraw": self._venue.conditions.key_withdraws,
            "canDeposit": True,
            "brokered": False,
            "updateTime": self._venue.now_ms(),
            "accountType": "SPOT",
            "balances": balances,
            "permissions": ["SPOT"],
            "uid": 1,
        }

    def user_assets(self, parameters: Parameters) -> list[dict[str, Any]]:
        """Positive balances, or the one coin asked for."""
        asked = parameters.text("asset")
        if asked is not None and asked not in self._config.coins:
            return []
        coins = [asked] if asked is not None else list(self._config.coins)
        return [_user_asset(coin, own) for coin in coins if not _is_zero(own := self._venue.balance(coin))]

    def all_coins(self, _: Parameters) -> list[dict[str, Any]]:
        """All coins with their networks, fees, limits and whether each is open."""
        return [self._coin(coin) for coin in self._config.coins]

    def _coin(self, coin: str) -> dict[str, Any]:
        own, listed = self._venue.balance(coin), self._config.coins[coin]
        networks = [self._network(coin, key) for key in listed.networks]
        return {
            "coin": coin,
            "depositAllEnable": any(item["depositEnable"] for item in networks),
            "withdrawAllEnable": any(item["withdrawEnable"] for item in networks),
            "name": listed.name or coin,
            "free": own.free.to_text(),
            "locked": "0",
            "freeze": own.frozen.to_text(),
            "withdrawing": own.withdrawing.to_text(),
            "ipoing": "0",
            "ipoable": "0",
            "storage": "0",
            "isLegalMoney": False,
            "trading": True,
            "networkList": networks,
        }

    def _network(self, coin: str, key: str) -> dict[str, Any]:
        network = self._config.coins[coin].networks[key]
        deposits = self._venue.open_for_deposits(coin, key)
        withdrawals = self._venue.open_for_withdrawals(coin, key)
        shown: dict[str, Any] = {
            "network": key,
            "coin": coin,
            "withdrawIntegerMultiple": self._config.step_text(coin, key),
            "isDefault": key == self._config.coins[coin].default_network(),
            "depositEnable": deposits,
            "withdrawEnable": withdrawals,
            "specialTips": "",
            "name": key,
            "resetAddressStatus": False,
            "addressRegex": "^(0x)[0-9A-Fa-f]{40}$",
            "memoRegex": "",
            "withdrawFee": network.withdraw_fee,
            "withdrawMin": network.withdraw_min,
            "withdrawMax": network.withdraw_max,
            "withdrawInternalMin": "0",
            "depositDust": "0",
            "minConfirm": network.confirmations,
            "unLockConfirm": network.unlock_confirmations,
            "sameAddress": False,
            "withdrawTag": False,
            "estimatedArrivalTime": 1,
            "busy": False,
            "contractAddress": network.contract or "",
            "contractAddressUrl": "",
        }
        if not deposits:
            shown["depositDesc"] = "Wallet Maintenance, Deposit Suspended"
        if not withdrawals:
            shown["withdrawDesc"] = "Wallet Maintenance, Withdrawal Suspended"
        return shown

    def deposit_address(self, parameters: Parameters) -> dict[str, Any]:
        """The customer's deposit address of a coin on a network."""
        coin = parameters.required("coin")
        listed = self._config.coins.get(coin)
        if listed is None:
            raise Refusal(-4018, "We don't have this asset.")
        network = listed.networks.get(parameters.text("network") or listed.default_network())
        if network is None:
            raise Refusal(-4045, "Failure to acquire assets.")
        return {"coin": coin, "address": network.deposit_address, "tag": "", "url": ""}

    def restrictions(self, _: Parameters) -> dict[str, Any]:
        """What the key may do."""
        conditions = self._venue.conditions
        return {
            "ipRestrict": conditions.ip_restricted,
            "createTime": 1_600_000_000_000,
            "enableReading": conditions.key_reads,
            "enableWithdrawals": conditions.key_withdraws,
            "enableInternalTransfer": False,
            "enableMargin": False,
            "enableFutures": False,
            "permitsUniversalTransfer": False,
            "enableVanillaOptions": False,
            "enableFixApiTrade": False,
            "enableFixReadOnly": False,
            "enableSpotAndMarginTrading": False,
            "enablePortfolioMarginTrading": False,
        }

    def exchange_info(self) -> dict[str, Any]:
        """No market is traded here."""
        return {
            "timezone": "UTC",
            "serverTime": self._venue.now_ms(),
            "rateLimits": [],
            "exchangeFilters": [],
            "symbols": [],
        }


def _is_zero(own: Balance) -> bool:
    return _total(own).base_units == 0


def _total(own: Balance) -> Amount:
    return own.free + own.withdrawing + own.frozen


def _user_asset(coin: str, own: Balance) -> dict[str, str]:
    return {
        "asset": coin,
        "free": own.free.to_text(),
        "locked": "0",
        "freeze": own.frozen.to_text(),
        "withdrawing": own.withdrawing.to_text(),
        "ipoable": "0",
        "btcValuation": "0",
    }
