"""Coinbase's wire: an account a currency, one record for what goes and comes, tokens in place of signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.coinbase.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.coinbase.rows import Records
from qtg_dagster.sandbox.exchange.dialects.coinbase.signing import (
    CoinbaseParameters,
    authenticate,
    parameters_of,
    public_key,
)
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder


class CoinbaseDialect(Dialect):
    """Coinbase documents that a repeated `idem` is answered with the first transaction."""

    order_id_name = "idem"
    repeats = "return_first"
    ethereum = "ethereum"

    @classmethod
    def new_credentials(cls) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
        return Credentials(f"organizations/{uuid4()}/apiKeys/{uuid4()}", pem)

    def check(self) -> None:
        self._key = public_key(self.venue.config, f"venues.{self.venue.key}")

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, self._records = Accounts(self.venue), Records(self.venue)
        one = "/v2/accounts/{account}"
        return (
            Endpoint("GET", "/v2/time", self._time, Role.TIME, Access.PUBLIC),
            Endpoint("GET", "/api/v3/brokerage/key_permissions", accounts.key, Role.PERMISSIONS),
            Endpoint("GET", "/v2/accounts", accounts.accounts, Role.BALANCES),
            Endpoint("GET", one, accounts.account, Role.NETWORKS),
            Endpoint("GET", f"{one}/addresses", accounts.addresses, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{one}/transactions", self._records.transactions, Role.WITHDRAWALS, also=(Role.DEPOSITS,)),
            Endpoint("POST", f"{one}/transactions", self._send, Role.WITHDRAW, Access.WITHDRAW, status=201),
        )

    def read(self, request: VenueRequest) -> CoinbaseParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> CoinbaseParameters:
        return authenticate(request, self.venue.config, self._key, self.venue.key, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        name, message, status = _WORDS[declined.reason]
        return Refusal(name, message, status)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"errors": [{"id": refusal.code, "message": refusal.message}]}

    def withdrawal_id(self) -> str:
        return str(uuid4())

    def deposit_id(self) -> str:
        return str(uuid4())

    def _time(self, _: CoinbaseParameters) -> dict[str, Any]:
        now = self.venue.now_ms() // 1000
        return {"data": {"iso": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "epoch": now}}

    def _send(self, parameters: CoinbaseParameters) -> dict[str, Any]:
        if parameters.required("type") != "send":
            raise parameters.malformed("type")
        coin, idem = parameters.required("currency"), parameters.text("idem")
        if coin != parameters.place["account"]:
            raise parameters.malformed("currency")
        if idem is not None and not _is_uuid4(idem):
            raise parameters.malformed("idem")
        order = WithdrawalOrder(
            coin=coin,
            address=parameters.required("to"),
            amount=parameters.required("amount"),
            network=parameters.text("network"),
            tag=parameters.text("destination_tag"),
            order_id=idem,
            includes_fee=False,
        )
        key = self.venue.withdraw(order, told=parameters.object("travel_rule_data") is not None)
        return {"data": self._records.submitted(key)}


def _is_uuid4(text: str) -> bool:
    try:
        return str(UUID(text, version=4)) == text
    except ValueError:
        return False


_WORDS: Mapping[Reason, tuple[str, str, int]] = {
    Reason.UNKNOWN_COIN: ("not_found", "Not found", 404),
    Reason.UNKNOWN_NETWORK: ("validation_error", "Please select a valid network", 400),
    Reason.NETWORK_CLOSED: ("validation_error", "Sends of this asset are disabled at the moment", 400),
    Reason.BAD_ADDRESS: ("validation_error", "Please enter a valid email or address", 400),
    Reason.TAG_NOT_TAKEN: ("validation_error", "This asset takes no destination tag", 400),
    Reason.ADDRESS_NOT_SAVED: ("validation_error", "The address is not on your allowlist", 400),
    Reason.MALFORMED_AMOUNT: ("validation_error", "Please enter a valid amount", 400),
    Reason.OFF_STEP: ("validation_error", "Amount has too many decimal places", 400),
    Reason.BELOW_MINIMUM: ("validation_error", "Amount is below the minimum", 400),
    Reason.ABOVE_MAXIMUM: ("validation_error", "Amount is above the maximum", 400),
    Reason.NOT_ABOVE_FEE: ("validation_error", "Amount is below the minimum", 400),
    Reason.INSUFFICIENT: ("validation_error", "You don't have that much.", 400),
    Reason.REPEATED_ORDER_ID: ("validation_error", "idem was used already", 400),
    Reason.TRAVEL_RULE: ("validation_error", "Travel rule data is required for this transaction", 400),
    Reason.MAINTENANCE: ("service_unavailable", "Service is unavailable", 503),
    Reason.NO_SUCH_ENDPOINT: ("not_found", "Not found", 404),
    Reason.KEY_MAY_NOT: ("invalid_scope", "Your API key lacks a permission for this", 403),
}

DIALECT = CoinbaseDialect
