"""Gate's wire: amounts include the fee, refusals are labels, and DONE is done only with a block."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any
from uuid import uuid4

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.gate.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.gate.rows import Histories
from qtg_dagster.sandbox.exchange.dialects.gate.signing import GateParameters, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

_CONTRACTS = ("futures/{settle}", "delivery/{settle}", "options")
_ORDER_ID = re.compile(r"[0-9A-Za-z_.-]{1,32}")


class GateDialect(Dialect):
    """Gate says outright that it does not hold a client to ids that were used once."""

    order_id_name = "withdraw_order_id"
    ethereum = "ETH"

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(token_hex(16), token_hex(32))

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories = Accounts(self.venue), Histories(self.venue)
        api, public = "/api/v4", Access.PUBLIC
        return (
            Endpoint("GET", f"{api}/spot/time", lambda _: {"server_time": self.venue.now_ms()}, Role.TIME, public),
            Endpoint("GET", f"{api}/wallet/currency_chains", accounts.chains, Role.NETWORKS, public),
            Endpoint("GET", f"{api}/wallet/withdraw_status", accounts.withdraw_status, Role.NETWORKS),
            Endpoint("GET", f"{api}/account/main_keys", accounts.main_keys, Role.PERMISSIONS),
            Endpoint("GET", f"{api}/spot/accounts", accounts.balances, Role.BALANCES),
            Endpoint("GET", f"{api}/margin/accounts", lambda _: []),
            *(Endpoint("GET", f"{api}/{kind}/accounts", accounts.never_opened) for kind in _CONTRACTS),
            Endpoint("GET", f"{api}/wallet/deposit_address", accounts.deposit_address, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{api}/wallet/saved_address", accounts.saved_addresses, Role.ADDRESS_BOOK),
            Endpoint("GET", f"{api}/wallet/deposits", histories.deposits, Role.DEPOSITS),
            Endpoint("GET", f"{api}/wallet/withdrawals", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("POST", f"{api}/withdrawals", self._withdraw, Role.WITHDRAW, Access.WITHDRAW),
        )

    def read(self, request: VenueRequest) -> GateParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> GateParameters:
        return authenticate(request, self.venue.config, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        label, message, status = _WORDS[declined.reason]
        return Refusal(label, message, status)

    def not_from_here(self) -> Refusal:
        return Refusal("IP_FORBIDDEN", "IP not in whitelist", 403)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"label": refusal.code, "message": refusal.message}

    def withdrawal_id(self) -> str:
        return f"w{uuid4().int % 10**12}"

    def deposit_id(self) -> str:
        return f"d{uuid4().int % 10**12}"

    def _withdraw(self, parameters: GateParameters) -> dict[str, Any]:
        order_id = parameters.text("withdraw_order_id")
        if order_id is not None and not _ORDER_ID.fullmatch(order_id):
            raise parameters.malformed("withdraw_order_id")
        order = WithdrawalOrder(
            coin=parameters.required("currency"),
            address=parameters.required("address"),
            amount=parameters.required("amount"),
            network=parameters.required("chain"),
            tag=parameters.text("memo"),
            order_id=order_id,
        )
        key = self.venue.withdraw(order)
        return {
            "id": key,
            "currency": order.coin.lower(),
            "amount": order.amount,
            "address": order.address,
            "memo": order.tag,
            "status": "REQUEST",
            "chain": str(order.network).lower(),
            "withdraw_order_id": order_id or "",
        }


_WORDS: Mapping[Reason, tuple[str, str, int]] = {
    Reason.UNKNOWN_COIN: ("INVALID_CURRENCY", "Invalid currency", 400),
    Reason.UNKNOWN_NETWORK: ("INVALID_PARAM_VALUE", "Invalid parameter: chain", 400),
    Reason.NETWORK_CLOSED: ("INVALID_PARAM_VALUE", "Withdrawals on this chain are suspended", 400),
    Reason.BAD_ADDRESS: ("INVALID_PARAM_VALUE", "Invalid parameter: address", 400),
    Reason.TAG_NOT_TAKEN: ("INVALID_PARAM_VALUE", "Invalid parameter: memo", 400),
    Reason.ADDRESS_NOT_SAVED: ("ADDRESS_NOT_USED", "Address was never used in the web console", 400),
    Reason.MALFORMED_AMOUNT: ("INVALID_PARAM_VALUE", "Invalid parameter: amount", 400),
    Reason.OFF_STEP: ("INVALID_PRECISION", "Invalid precision", 400),
    Reason.BELOW_MINIMUM: ("AMOUNT_TOO_LITTLE", "Amount does not reach the minimum", 400),
    Reason.ABOVE_MAXIMUM: ("WITHDRAWAL_OVER_LIMIT", "Withdrawal limit exceeded", 400),
    Reason.NOT_ABOVE_FEE: ("AMOUNT_TOO_LITTLE", "Amount does not exceed the fee", 400),
    Reason.INSUFFICIENT: ("BALANCE_NOT_ENOUGH", "Balance not enough", 400),
    Reason.REPEATED_ORDER_ID: ("DUPLICATE_REQUEST", "Duplicate request", 400),
    Reason.TRAVEL_RULE: ("INVALID_PARAM_VALUE", "Recipient information is required", 400),
    Reason.MAINTENANCE: ("SERVER_ERROR", "Service is in maintenance", 503),
    Reason.NO_SUCH_ENDPOINT: ("NOT_FOUND", "Request URL does not exist", 404),
    Reason.KEY_MAY_NOT: ("FORBIDDEN", "API key has no permission for this operation", 403),
}

DIALECT = GateDialect
