"""Coinbase's wire: an account a currency; the fee comes on top; our id is a UUID that the venue takes once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import ByToken
from qtg_dagster.lanes.cex.readings import field, moment_of_seconds, rows
from qtg_dagster.lanes.cex.venue import (
    Access,
    Call,
    CoinBalance,
    DepositAddress,
    DepositRow,
    FeeRule,
    Identity,
    NetworkRules,
    Order,
    Repeats,
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.coinbase.records import (
    NETWORKS,
    balance,
    deposits_in,
    destination_tag,
    network_rules,
    newest_in,
    next_page,
    withdrawals_in,
)

REFUSALS = frozenset(
    {"authentication_error", "invalid_scope", "param_required", "rate_limit_exceeded", "two_factor_required"}
    | {"validation_error"}
)
NETWORK_ALIASES: Mapping[str, str] = {
    "erc20": "ethereum",
    "eth": "ethereum",
    "sol": "solana",
    "btc": "bitcoin",
    "matic": "polygon",
    "xlm": "stellar",
    "xrp": "ripple",
}
_PAGE = 100


def _read_answer(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    errors, data = body.get("errors"), body.get("data")
    found = data.get("id") if isinstance(data, dict) else None
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        code, message = errors[0].get("id"), errors[0].get("message")
        if len(errors) > 1 and any(other.get("id") != code for other in errors if isinstance(other, dict)):
            code = "several errors"
    else:
        code, message = body.get("error"), body.get("error_description")
    error = None if "errors" not in body and code is None else str(code)
    return SubmitBody(error, str(message or ""), found, success=error is None and isinstance(data, dict))


class CoinbaseVenue(Venue):
    """The record shows our id, and is read for it; a repeat of it is answered with the first transaction.

    The venue says neither which networks a currency has nor what a withdrawal costs until it was taken.
    """

    ccxt_id = "coinbase"
    payload_format = "coinbase.send.v2"
    wallet = "wallet"
    fee_rule = FeeRule.ON_TOP
    identity = Identity.ON_ROWS
    repeats = Repeats.IDEMPOTENT
    request_lifetime = timedelta(seconds=120)
    history_window = timedelta(days=90)
    ids_per_lookup = 0
    newest_first = True
    deposits_show_destination = False
    histories_of_all_coins = False
    withdrawal_pages = deposit_pages = balance_pages = ByToken(next_page)
    submit_cost = 10.6
    rate_window_seconds = 4.0
    submit_rules = SubmitRules(
        read=_read_answer,
        refusals=REFUSALS,
        # A copy of a request that was taken comes with a token that is used up, too soon after it, or finds the balance
        # or a limit used up.
        confirm_first=frozenset(
            {"authentication_error", "rate_limit_exceeded", "two_factor_required", "validation_error"}
        ),
        duplicate_texts=("duplicate", "idem ", "already exist"),
    )
    access_codes = MappingProxyType(
        {
            "authentication_error": Access.KEY_IP_OR_PERMISSION,
            "unauthorized": Access.KEY_IP_OR_PERMISSION,
            "invalid_token": Access.KEY_IP_OR_PERMISSION,
            "expired_token": Access.CLOCK,
            "revoked_token": Access.WRONG_KEY,
            "invalid_scope": Access.NO_PERMISSION,
            "service_unavailable": Access.MAINTENANCE,
        }
    )

    def client_id(self, idempotency_key: str) -> str:
        """A UUID of version 4 in lower case, always the same for the same key."""
        digest = hashlib.sha256(b"qtg.cex.client-id.v1:" + idempotency_key.encode()).digest()
        return str(UUID(bytes=digest[:16], version=4))

    def network_code(self, name: str) -> str:
        found = NETWORK_ALIASES.get(name.lower(), name.lower())
        return found if found in NETWORKS else name

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt stamps the token itself
        params = {
            "account_id": order.coin,  # a currency stands for its primary account
            "type": "send",
            "to": order.address,
            "amount": order.amount,
            "currency": order.coin,
            "network": order.network,
            "idem": order.client_id,
        }
        if order.memo is not None:
            params["destination_tag"] = order.memo
        return Call("v2PrivatePostAccountsAccountIdTransactions", params, moves_money=True)

    def with_beneficiary(self, call: Call, beneficiary: Mapping[str, Any]) -> Call:
        return replace(call, objects={"travel_rule_data": dict(beneficiary)})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:  # noqa: ARG002 - no bounds
        asked = {"account_id": coin or "", "limit": str(_PAGE), "order": "desc"}
        if cursor is not None:
            asked["starting_after"] = cursor
        return Call("v2PrivateGetAccountsAccountIdTransactions", asked)

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return withdrawals_in(body)

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        """The same record: what comes stands beside what goes."""
        return self.withdrawals(coin, window, cursor)

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return deposits_in(body)

    def newest_on_page(self, body: Any) -> datetime | None:
        return newest_in(body)

    def read_error(self, body: Any) -> SubmitBody:
        """One code stands for everything that is wrong with a token: one that is too old is told by the words."""
        found = _read_answer(body)
        too_old = found.error_code == "authentication_error" and "expired" in found.message
        return replace(found, error_code="expired_token") if too_old else found

    def permissions(self) -> Call:
        return Call("v3PrivateGetBrokerageKeyPermissions")

    def read_permission_problem(self, body: Any) -> str | None:
        if field(body, "can_transfer", "API key") is True and body.get("can_view") is True:
            return None
        return "the API key may not transfer; let it view and transfer at the venue"

    def server_time(self) -> Call:
        return Call("v2PublicGetTime")

    def read_server_time(self, body: Any) -> datetime:
        """In whole seconds: the middle of the second, so that half of it at most is taken for skew."""
        told = field(field(body, "data", "server time"), "epoch", "server time")
        return moment_of_seconds(told) + timedelta(milliseconds=500)

    def networks(self, coin: str) -> tuple[Call, ...]:
        return (Call("v2PrivateGetAccountsAccountId", {"account_id": coin}),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        (body,) = bodies
        return network_rules(field(body, "data", "account"), coin)

    def balances(self, cursor: str | None = None) -> Call:
        asked = {"limit": str(_PAGE)} | ({} if cursor is None else {"starting_after": cursor})
        return Call("v2PrivateGetAccounts", asked)

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        """Wallets alone: what lies in a vault cannot be sent, and money of states is not sent over chains."""
        return tuple(
            balance(row) for row in rows(field(body, "data", "accounts"), "accounts") if row.get("type") == "wallet"
        )

    def deposit_address(self, coin: str, network: str) -> Call:  # noqa: ARG002 - all networks are answered
        return Call("v2PrivateGetAccountsAccountIdAddresses", {"account_id": coin, "limit": str(_PAGE)})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        return tuple(
            DepositAddress(
                network=str(field(row, "network", "deposit address")),
                address=str(field(row, "address", "deposit address")),
                memo=destination_tag(row),
            )
            for row in rows(field(body, "data", "deposit addresses"), "deposit addresses")
        )


VENUE = CoinbaseVenue()
