"""Kraken's wire: errors in a list with HTTP 200, no id of the client's own, withdrawals to saved addresses only."""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.sandbox.exchange.config import SavedAddress
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.kraken.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.kraken.names import Names, method_name
from qtg_dagster.sandbox.exchange.dialects.kraken.rows import Histories
from qtg_dagster.sandbox.exchange.dialects.kraken.signing import (
    KrakenParameters,
    Nonces,
    authenticate,
    is_base64,
    parameters_of,
    refused,
)
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalAsked, WithdrawalOrder

_ALPHABET = string.ascii_uppercase + string.digits


class KrakenDialect(Dialect):
    """Nothing of the client's own tells two withdrawals apart; a copy of a request fails by its nonce."""

    ethereum = "Ethereum"
    saves_addresses = True

    def __init__(self, venue: Venue) -> None:
        super().__init__(venue)
        self._nonces = Nonces(venue.ledger, venue.key)
        self._names = Names(venue)

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(*(base64.b64encode(secrets.token_bytes(size)).decode() for size in (42, 64)))

    def check(self) -> None:
        if not is_base64(self.venue.config.api_secret.get_secret_value()):
            raise ConfigurationError(f"venues.{self.venue.key}.api_secret: secrets of this wire are base64")

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories = Accounts(self.venue), Histories(self.venue)
        public, private = "/0/public", "/0/private"
        return (
            Endpoint("GET", f"{public}/Time", self._time, Role.TIME, Access.PUBLIC),
            Endpoint("GET", f"{public}/SystemStatus", self._system_status, Role.STATUS, Access.PUBLIC),
            Endpoint("GET", f"{public}/Assets", accounts.assets, access=Access.PUBLIC),
            Endpoint("GET", f"{public}/AssetPairs", lambda _: {}, access=Access.PUBLIC),
            Endpoint("POST", f"{private}/Balance", accounts.balances),
            Endpoint("POST", f"{private}/BalanceEx", accounts.balances_with_holds, Role.BALANCES),
            Endpoint("POST", f"{private}/GetApiKeyInfo", accounts.key_info, Role.PERMISSIONS),
            Endpoint("POST", f"{private}/DepositMethods", accounts.deposit_methods),
            Endpoint("POST", f"{private}/DepositAddresses", accounts.deposit_addresses, Role.DEPOSIT_ADDRESS),
            Endpoint("POST", f"{private}/DepositStatus", histories.deposits, Role.DEPOSITS),
            Endpoint("POST", f"{private}/WithdrawMethods", accounts.withdraw_methods, Role.NETWORKS),
            Endpoint("POST", f"{private}/WithdrawAddresses", accounts.withdraw_addresses, Role.ADDRESS_BOOK),
            Endpoint("POST", f"{private}/WithdrawInfo", self._withdraw_info),
            Endpoint("POST", f"{private}/WithdrawStatus", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("POST", f"{private}/Withdraw", self._withdraw, Role.WITHDRAW, Access.WITHDRAW),
        )

    def read(self, request: VenueRequest) -> KrakenParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> KrakenParameters:
        return authenticate(request, self.venue.config, self._nonces)

    def decline(self, declined: Declined) -> Refusal:
        return refused(_WORDS[declined.reason])

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"error": [refusal.code]}

    def success_body(self, result: Any) -> dict[str, Any]:
        return {"error": [], "result": result}

    def withdrawal_id(self) -> str:
        return _reference("A")

    def deposit_id(self) -> str:
        return _reference("Q")

    def _time(self, _: KrakenParameters) -> dict[str, Any]:
        now = datetime.fromtimestamp(self.venue.now_ms() / 1000, UTC)
        return {"unixtime": int(now.timestamp()), "rfc1123": now.strftime("%a, %d %b %y %H:%M:%S +0000")}

    def _system_status(self, _: KrakenParameters) -> dict[str, str]:
        now = datetime.fromtimestamp(self.venue.now_ms() / 1000, UTC)
        status = "maintenance" if self.venue.conditions.maintenance else "online"
        return {"status": status, "timestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def _withdraw(self, parameters: KrakenParameters) -> dict[str, str]:
        coin = self._names.coin(parameters.required("asset"))
        saved = self._saved(coin, parameters.required("key"))
        given = parameters.text("address")
        if given is not None and given.lower() != saved.address:
            raise Declined(Reason.BAD_ADDRESS)
        order = WithdrawalOrder(coin, saved.address, parameters.required("amount"), saved.network)
        ceiling = parameters.text("max_fee")
        if ceiling is not None and self._fee(order) > self._amount(coin, ceiling, parameters):
            raise refused("EFunding:Max fee exceeded")
        return {"refid": self.venue.withdraw(order)}

    def _withdraw_info(self, parameters: KrakenParameters) -> dict[str, str]:
        """What a withdrawal would cost; `amount` is what would arrive."""
        coin = self._names.coin(parameters.required("asset"))
        saved = self._saved(coin, parameters.required("key"))
        order = WithdrawalOrder(coin, saved.address, parameters.required("amount"), saved.network)
        asked: WithdrawalAsked = self.venue.desk.check(order, disabled=self.venue.conditions.withdraw_disabled)
        return {
            "method": method_name(coin, saved.network),
            "limit": self.venue.balance(coin).free.to_text(),
            "amount": (asked.gross - asked.fee).to_text(),
            "fee": asked.fee.to_text(),
        }

    def _saved(self, coin: str, name: str) -> SavedAddress:
        for item in self.venue.config.address_book:
            if item.name == name and item.coin == coin and item.verified:
                return item
        raise Declined(Reason.ADDRESS_NOT_SAVED)

    def _fee(self, order: WithdrawalOrder) -> Any:
        network = self.venue.config.coins[order.coin].networks[str(order.network)]
        return self.venue.config.amount(order.coin, network.withdraw_fee)

    def _amount(self, coin: str, text: str, parameters: KrakenParameters) -> Any:
        try:
            return self.venue.config.amount(coin, text)
        except InvalidInput:
            raise parameters.malformed("max_fee") from None


def _reference(first: str) -> str:
    text = first + "".join(secrets.choice(_ALPHABET) for _ in range(18))
    return f"{text[:7]}-{text[7:13]}-{text[13:]}"


_WORDS: Mapping[Reason, str] = {
    Reason.UNKNOWN_COIN: "EFunding:Unknown asset",
    Reason.UNKNOWN_NETWORK: "EFunding:No funding method",
    Reason.NETWORK_CLOSED: "EFunding:No funding method",
    Reason.BAD_ADDRESS: "EFunding:Invalid address",
    Reason.TAG_NOT_TAKEN: "EFunding:Invalid address",
    Reason.ADDRESS_NOT_SAVED: "EFunding:Unknown withdraw key",
    Reason.MALFORMED_AMOUNT: "EFunding:Invalid amount",
    Reason.OFF_STEP: "EFunding:Invalid amount",
    Reason.BELOW_MINIMUM: "EFunding:Invalid amount",
    Reason.ABOVE_MAXIMUM: "EFunding:Withdrawal limit exceeded",
    Reason.NOT_ABOVE_FEE: "EFunding:Invalid amount",
    Reason.INSUFFICIENT: "EFunding:Insufficient funds",
    Reason.REPEATED_ORDER_ID: "EGeneral:Invalid arguments",
    Reason.TRAVEL_RULE: "EFunding:Beneficiary information required",
    Reason.MAINTENANCE: "EService:Unavailable",
    Reason.NO_SUCH_ENDPOINT: "EGeneral:Unknown method",
    Reason.KEY_MAY_NOT: "EGeneral:Permission denied",
}

DIALECT = KrakenDialect
