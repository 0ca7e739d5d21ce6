"""Bitget's wire for its classic accounts: amounts include the fee, everything comes in code, msg and data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.books import true_ms
from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.dialects.bitget.accounts import Accounts
from qtg_dagster.sandbox.exchange.dialects.bitget.names import network_named
from qtg_dagster.sandbox.exchange.dialects.bitget.rows import Histories
from qtg_dagster.sandbox.exchange.dialects.bitget.signing import BitgetParameters, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

_LONGEST_CLIENT_ID = 50
_BENEFICIARY: Mapping[str, frozenset[str]] = {
    "memberCode": frozenset({"bithumb", "korbit", "coinone"}),
    "identityType": frozenset({"company", "user"}),
}


class BitgetDialect(Dialect):
    """Bitget wants a clientOid to be unique, and has a code for one that is not."""

    order_id_name = "clientOid"
    repeats = "refuse"
    ethereum = "ERC20"

    _numbers = itertools.count()

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(f"bg_{token_hex(16)}", token_hex(32), token_hex(8))

    def check(self) -> None:
        if self.venue.config.api_passphrase is None:
            raise ConfigurationError(f"venues.{self.venue.key}.api_passphrase: keys of this wire have one")

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories = Accounts(self.venue), Histories(self.venue)
        api, public = "/api/v2", Access.PUBLIC
        wallet, other = f"{api}/spot/wallet", accounts.other_wallet
        return (
            Endpoint("GET", f"{api}/public/time", self._time, Role.TIME, public),
            Endpoint("GET", f"{api}/spot/public/coins", accounts.coins, Role.NETWORKS, public),
            Endpoint("GET", f"{api}/spot/account/info", accounts.info, Role.PERMISSIONS),
            Endpoint("GET", f"{api}/spot/account/assets", accounts.assets, Role.BALANCES),
            Endpoint("GET", f"{api}/account/funding-assets", other),
            Endpoint("GET", f"{api}/margin/crossed/account/assets", other),
            Endpoint("GET", f"{api}/margin/isolated/account/assets", other),
            Endpoint("GET", f"{api}/mix/account/accounts", other),
            Endpoint("GET", f"{wallet}/deposit-address", accounts.deposit_address, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", f"{wallet}/deposit-records", histories.deposits, Role.DEPOSITS),
            Endpoint("GET", f"{wallet}/withdrawal-records", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("POST", f"{wallet}/withdrawal", self._withdraw, Role.WITHDRAW, Access.WITHDRAW),
        )

    def read(self, request: VenueRequest) -> BitgetParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> BitgetParameters:
        return authenticate(request, self.venue.config, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        code, message, status = _WORDS[declined.reason]
        return Refusal(code, message.format(**declined.facts), status)

    def not_from_here(self) -> Refusal:
        return Refusal("40018", "Invalid IP")

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"code": refusal.code, "msg": refusal.message, "requestTime": self.venue.now_ms(), "data": None}

    def success_body(self, result: Any) -> dict[str, Any]:
        return {"code": "00000", "msg": "success", "requestTime": self.venue.now_ms(), "data": result}

    def withdrawal_id(self) -> str:
        """Whole numbers that rise with time, as the paging of this wire needs."""
        return str((true_ms() << 20) + next(self._numbers))

    def deposit_id(self) -> str:
        return self.withdrawal_id()

    def _time(self, _: BitgetParameters) -> dict[str, str]:
        return {"serverTime": str(self.venue.now_ms())}

    def _withdraw(self, parameters: BitgetParameters) -> dict[str, str | None]:
        coin, size = parameters.required("coin"), parameters.required("size")
        if parameters.required("transferType") != "on_chain":
            raise parameters.malformed("transferType")
        for name, known in _BENEFICIARY.items():
            if parameters.text(name) is not None and parameters.text(name) not in known:
                raise parameters.malformed(name)
        client_id, chain = parameters.text("clientOid"), parameters.required("chain")
        if client_id is not None and len(client_id) > _LONGEST_CLIENT_ID:
            raise Refusal("40304", f"clientOid or clientOrderId length cannot greater than {_LONGEST_CLIENT_ID}")
        network = network_named(self.venue.config, coin, chain)
        if network is None and coin in self.venue.config.coins:
            raise Declined(Reason.UNKNOWN_NETWORK)
        order = WithdrawalOrder(
            coin=coin,
            address=parameters.required("address"),
            amount=size,
            network=network,
            tag=parameters.text("tag"),
            order_id=client_id,
        )
        return {"orderId": self.venue.withdraw(order, told=self._is_told(parameters)), "clientOid": client_id}

    def _is_told(self, parameters: BitgetParameters) -> bool:
        """Whether exchange and receiver are named: a company by its name, a person by both."""
        kind = parameters.text("identityType")
        names = ("companyName",) if kind == "company" else ("firstName", "lastName")
        return kind is not None and None not in map(parameters.text, ("memberCode", *names))


_WORDS: Mapping[Reason, tuple[str, str, int]] = {
    Reason.UNKNOWN_COIN: ("13002", "Currency does not exist", 400),
    Reason.UNKNOWN_NETWORK: ("43111", "param error chain", 400),
    Reason.NETWORK_CLOSED: ("42015", "The current currency does not support withdrawal", 400),
    Reason.BAD_ADDRESS: ("47002", "Address verification failed", 400),
    Reason.TAG_NOT_TAKEN: ("43111", "param error tag", 400),
    Reason.ADDRESS_NOT_SAVED: ("43111", "param error address not in address book", 400),
    Reason.MALFORMED_AMOUNT: ("40020", "Parameter size error", 400),
    Reason.OFF_STEP: ("43124", "withdraw step is error", 400),
    Reason.BELOW_MINIMUM: ("43114", "Withdrawal is less than the minimum withdrawal count {minimum}", 400),
    Reason.ABOVE_MAXIMUM: ("13212", "A single withdrawal exceeds the maximum limit", 400),
    Reason.NOT_ABOVE_FEE: ("43112", "The amount of coins withdrawn is less than the handling fee", 400),
    Reason.INSUFFICIENT: ("43012", "Insufficient balance", 400),
    Reason.REPEATED_ORDER_ID: ("43118", "clientOrderId duplicate", 400),
    Reason.TRAVEL_RULE: ("40027", "Withdrawals in this account area must be kyc", 400),
    Reason.MAINTENANCE: ("40200", "Server upgrade, please try again later", 400),
    Reason.NO_SUCH_ENDPOINT: ("40404", "Request URL NOT FOUND", 404),
    Reason.KEY_MAY_NOT: ("40014", "Incorrect permissions", 400),
}

DIALECT = BitgetDialect
