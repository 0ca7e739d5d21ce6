"""KuCoin's wire: a request says how the fee is taken, a remark is all that is a client's own, codes are text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from secrets import token_hex
from typing import Any
from uuid import uuid4

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.kucoin.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.kucoin.rows import Histories
from qtg_dagster.sandbox.exchange.dialects.kucoin.signing import KucoinParameters, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

_FEE_FROM_AMOUNT: Mapping[str | None, bool] = {"INTERNAL": True, "EXTERNAL": False}


class KucoinDialect(Dialect):
    """A remark is free text, so the same one may come again."""

    order_id_name = "remark"
    ethereum = "eth"

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(token_hex(12), str(uuid4()), token_hex(8))

    def check(self) -> None:
        if self.venue.config.api_passphrase is None:
            raise ConfigurationError(f"venues.{self.venue.key}.api_passphrase: keys of this wire have one")

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories = Accounts(self.venue), Histories(self.venue)
        v1, v3, public = "/api/v1", "/api/v3", Access.PUBLIC
        return (
            Endpoint("GET", f"{v1}/timestamp", lambda _: self.venue.now_ms(), Role.TIME, public),
            Endpoint("GET", f"{v1}/status", accounts.status, Role.STATUS, public),
            Endpoint("GET", f"{v3}/currencies/{{currency}}", accounts.currency, Role.NETWORKS, public),
            Endpoint("GET", f"{v1}/user/api-key", accounts.api_key, Role.PERMISSIONS),
            Endpoint("GET", f"{v1}/accounts", accounts.accounts, Role.BALANCES),
            Endpoint("GET", f"{v3}/deposit-addresses", accounts.deposit_addresses, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{v1}/deposits", histories.deposits, Role.DEPOSITS),
            Endpoint("GET", f"{v1}/withdrawals", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("GET", f"{v1}/withdrawals/quotas", accounts.quotas, Role.NETWORKS),
            Endpoint("GET", f"{v1}/withdrawals/{{withdrawal_id}}", histories.withdrawal, Role.WITHDRAWALS),
            Endpoint("POST", f"{v3}/withdrawals", self._withdraw, Role.WITHDRAW, Access.WITHDRAW),
        )

    def read(self, request: VenueRequest) -> KucoinParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> KucoinParameters:
        return authenticate(request, self.venue.config, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        code, message, status = _WORDS[declined.reason]
        return Refusal(code, message, status)

    def not_from_here(self) -> Refusal:
        return Refusal("400006", "Invalid request IP, the current client IP is: 203.0.113.9.", 403)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"code": refusal.code, "msg": refusal.message}

    def success_body(self, result: Any) -> dict[str, Any]:
        return {"code": "200000", "data": result}

    def withdrawal_id(self) -> str:
        return token_hex(12)

    def _withdraw(self, parameters: KucoinParameters) -> dict[str, str]:
        if parameters.required("withdrawType") != "ADDRESS":
            raise parameters.malformed("withdrawType")
        order = WithdrawalOrder(
            coin=parameters.required("currency"),
            address=parameters.required("toAddress"),
            amount=parameters.required("amount"),
            network=parameters.text("chain"),
            tag=parameters.text("memo"),
            order_id=parameters.text("remark"),
            includes_fee=self._fee_is_inside(parameters),
        )
        return {"withdrawalId": self.venue.withdraw(order)}

    def _fee_is_inside(self, parameters: KucoinParameters) -> bool:
        """As asked for; where nothing is, out of the amount only when the account cannot pay for it beside."""
        asked = parameters.text("feeDeductType")
        if asked is not None and asked not in _FEE_FROM_AMOUNT:
            raise parameters.malformed("feeDeductType")
        if asked is not None:
            return _FEE_FROM_AMOUNT[asked]
        coin = parameters.required("currency")
        listed = self.venue.config.coins.get(coin)
        network = None if listed is None else listed.networks.get(parameters.text("chain") or listed.default_network())
        if network is None:
            return False
        try:
            needed = Decimal(parameters.required("amount")) + Decimal(network.withdraw_fee)
        except InvalidOperation:
            return False
        return Decimal(self.venue.balance(coin).free.to_text()) < needed


_WORDS: Mapping[Reason, tuple[str, str, int]] = {
    Reason.UNKNOWN_COIN: ("400100", "currency is invalid", 200),
    Reason.UNKNOWN_NETWORK: ("900014", "Invalid chainId", 200),
    Reason.NETWORK_CLOSED: ("260210", "withdraw.disabled", 200),
    Reason.BAD_ADDRESS: ("400100", "Invalid withdrawal address.", 200),
    Reason.TAG_NOT_TAKEN: ("400100", "memo is invalid", 200),
    Reason.ADDRESS_NOT_SAVED: ("400100", "The address is not in the whitelist.", 200),
    Reason.MALFORMED_AMOUNT: ("400100", "amount is invalid", 200),
    Reason.OFF_STEP: ("400100", "The amount increment is invalid.", 200),
    Reason.BELOW_MINIMUM: ("400100", "The withdrawal amount is below the minimum requirement.", 200),
    Reason.ABOVE_MAXIMUM: ("400100", "The withdrawal amount exceeds the limit.", 200),
    Reason.NOT_ABOVE_FEE: ("400100", "The withdrawal amount is below the minimum requirement.", 200),
    Reason.INSUFFICIENT: ("230003", "Balance insufficient!", 200),
    Reason.REPEATED_ORDER_ID: ("400100", "remark is invalid", 200),  # the venue knows no such refusal
    Reason.TRAVEL_RULE: ("400100", "Recipient information is required.", 200),
    Reason.MAINTENANCE: ("503000", "Service is temporarily unavailable.", 503),
    Reason.NO_SUCH_ENDPOINT: ("404000", "Url Not Found", 404),
    Reason.KEY_MAY_NOT: ("400007", "Access denied, requires more permission.", 403),
}

DIALECT = KucoinDialect
