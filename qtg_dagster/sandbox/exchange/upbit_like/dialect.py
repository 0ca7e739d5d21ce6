"""The dialect that these wires share; each says in a few attributes what is its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_urlsafe
from typing import Any, ClassVar
from uuid import uuid4

from qtg_dagster.sandbox.exchange.declined import Declined, Reason
from qtg_dagster.sandbox.exchange.dialect import Access, Credentials, Dialect, Endpoint, Role
from qtg_dagster.sandbox.exchange.upbit_like.accounts import Accounts
from qtg_dagster.sandbox.exchange.upbit_like.rows import Histories, RowShape
from qtg_dagster.sandbox.exchange.upbit_like.signing import JwtParameters, Nonces, Scheme, authenticate, parameters_of
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.wire import Refusal, VenueRequest
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder

Words = Mapping[Reason, tuple[str, str, int]]


class UpbitLikeDialect(Dialect):
    """No id of the client's own; withdrawals go to addresses that were saved at the venue before."""

    saves_addresses = True
    ethereum = "ETH"
    scheme: ClassVar[Scheme]
    shape: ClassVar[RowShape]
    words: ClassVar[Words]
    submitted_status: ClassVar[int]
    other_address: ClassVar[tuple[str, str]]  # the words to a key that is used from an address it is not bound to

    def __init__(self, venue: Venue) -> None:
        super().__init__(venue)
        self._nonces = Nonces(venue.ledger, venue.key)
        self.histories = Histories(venue, self.shape)

    @classmethod
    def new_credentials(cls) -> Credentials:
        return Credentials(token_urlsafe(30), token_urlsafe(30))

    def endpoints(self) -> Sequence[Endpoint]:
        accounts, histories = Accounts(self.venue), Histories(self.venue, self.shape)
        withdraw, status = self._withdraw, self.submitted_status
        return (
            Endpoint("GET", "/v1/accounts", accounts.balances, Role.BALANCES),
            Endpoint("GET", "/v1/api_keys", accounts.keys, Role.PERMISSIONS, also=(Role.TIME,)),
            Endpoint("GET", "/v1/status/wallet", accounts.wallets, Role.STATUS),
            Endpoint("GET", "/v1/deposits", histories.deposits, Role.DEPOSITS),
            Endpoint("GET", "/v1/deposit", histories.deposit, Role.DEPOSITS),
            Endpoint("GET", "/v1/deposits/coin_address", accounts.own_address, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", "/v1/deposits/coin_addresses", accounts.own_addresses, Role.DEPOSIT_ADDRESS),
            Endpoint("GET", "/v1/withdraws", histories.withdrawals, Role.WITHDRAWALS),
            Endpoint("GET", "/v1/withdraw", histories.withdrawal, Role.WITHDRAWALS),
            Endpoint("GET", "/v1/withdraws/chance", accounts.chance, Role.NETWORKS),
            Endpoint("GET", "/v1/withdraws/coin_addresses", accounts.saved_addresses, Role.ADDRESS_BOOK),
            Endpoint("POST", "/v1/withdraws/coin", withdraw, Role.WITHDRAW, Access.WITHDRAW, status),
        )

    def read(self, request: VenueRequest) -> JwtParameters:
        return parameters_of(request)

    def authenticate(self, request: VenueRequest) -> JwtParameters:
        return authenticate(request, self.venue.config, self.scheme, self._nonces, self.venue.now_ms())

    def decline(self, declined: Declined) -> Refusal:
        code, message, status = self.words[declined.reason]
        return Refusal(code, message, status)

    def not_from_here(self) -> Refusal:
        code, message = self.other_address
        return Refusal(code, message, 401)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        return {"error": {"name": refusal.code, "message": refusal.message}}

    def withdrawal_id(self) -> str:
        return str(uuid4())

    def deposit_id(self) -> str:
        return str(uuid4())

    def withdraw(self, order: WithdrawalOrder, parameters: JwtParameters) -> str:  # noqa: ARG002 - for wires with more
        """Have the venue take it; its id, or raises `Declined`."""
        return self.venue.withdraw(order)

    def _withdraw(self, parameters: JwtParameters) -> dict[str, Any]:
        if parameters.text("transaction_type") not in (None, "default"):
            raise parameters.malformed("transaction_type")
        order = WithdrawalOrder(
            coin=parameters.required("currency"),
            network=parameters.required("net_type"),
            address=parameters.required("address"),
            amount=parameters.required("amount"),
            tag=parameters.text("secondary_address"),
            includes_fee=False,
        )
        self._check_saved(order)
        return self.histories.asked_for(self.withdraw(order, parameters))

    def _check_saved(self, order: WithdrawalOrder) -> None:
        """An address is saved for a coin on a network; of those that are not listed other checks tell."""
        listed = self.venue.config.coins.get(order.coin)
        if listed is None or order.network not in listed.networks:
            return
        saved = {
            item.address
            for item in self.venue.config.address_book
            if item.verified and (item.coin, item.network) == (order.coin, order.network)
        }
        if order.address.lower() not in saved:
            raise Declined(Reason.ADDRESS_NOT_SAVED)
