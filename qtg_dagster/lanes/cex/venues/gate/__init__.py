"""Gate's wire: withdrawals from the spot account; refusals are labels, times are seconds, done needs a block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import ByOffset
from qtg_dagster.lanes.cex.readings import field, moment, rows, text
from qtg_dagster.lanes.cex.reply import LookupFailed
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
    SavedAddress,
    Venue,
    Window,
    WithdrawalRow,
)
from qtg_dagster.lanes.cex.venues.gate.accounts import (
    OTHER_WALLETS,
    key_problem,
    network_rules,
    other_wallet,
    spot_balance,
)
from qtg_dagster.lanes.cex.venues.gate.records import (
    chain_code,
    coin_and_chain,
    deposit_row,
    withdrawal_row,
    without_fee,
)

#: Given to the second copy of a request whose first was taken too: it was late, or the first left too little.
CONFIRM_FIRST = frozenset({"REQUEST_EXPIRED", "BALANCE_NOT_ENOUGH", "WITHDRAWAL_OVER_LIMIT", "TOO_FAST"})
REFUSALS = CONFIRM_FIRST | {
    "INVALID_CREDENTIALS",
    "INVALID_KEY",
    "INVALID_SIGNATURE",
    "MISSING_REQUIRED_HEADER",
    "IP_FORBIDDEN",
    "READ_ONLY",
    "FORBIDDEN",
    "API_WITHDRAW_DISABLED",
    "ADDRESS_NOT_USED",
    "AMOUNT_TOO_LITTLE",
}
ACCESS_CODES: Mapping[str, Access] = {
    **dict.fromkeys(("INVALID_KEY", "INVALID_CREDENTIALS"), Access.WRONG_KEY),
    "INVALID_SIGNATURE": Access.WRONG_SIGNATURE,
    "IP_FORBIDDEN": Access.IP_NOT_ALLOWED,
    **dict.fromkeys(("FORBIDDEN", "READ_ONLY", "ACCOUNT_LOCKED"), Access.NO_PERMISSION),
    "REQUEST_EXPIRED": Access.CLOCK,
    **dict.fromkeys(("API_WITHDRAW_DISABLED", "SERVER_ERROR", "TOO_BUSY"), Access.MAINTENANCE),
}
_LONGEST = timedelta(days=30, seconds=-2)  # a window grows by up to two seconds when it is told in whole ones
_PAGE = 100


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    label = text(body.get("label"))
    return SubmitBody(
        error_code=label,
        message=str(body.get("message") or body.get("detail") or ""),
        withdrawal_id=body.get("id"),
        success=label is None and body.get("succeeded", True) is True,
    )


class GateVenue(Venue):
    """Requests and rows tell the gross amount: the fee is taken out of it.

    Our id can be asked for, and the venue does not hold us to using one once.
    """

    ccxt_id = "gate"
    payload_format = "gate.withdrawal.v1"
    wallet = "spot"
    fee_rule = FeeRule.FROM_AMOUNT
    identity = Identity.SEARCHABLE
    request_lifetime = timedelta(seconds=60)
    client_id_window = history_window = _LONGEST
    ids_per_lookup = 1
    withdrawal_pages = deposit_pages = ByOffset(_PAGE)
    access_codes = ACCESS_CODES
    no_wallet_codes = frozenset({"USER_NOT_FOUND"})
    submit_cost = 60.0  # one in three seconds
    rate_window_seconds = 10.0
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        confirm_first=CONFIRM_FIRST,
        duplicate_codes=frozenset({"DUPLICATE_REQUEST", "ORDER_EXISTS", "REPEATED_CREATION"}),
        duplicate_texts=("duplicate", "already exist", "repeat", "resubmit"),
    )

    def coin_code(self, name: str) -> str:
        return name.upper()

    def network_code(self, name: str) -> str:
        return chain_code(name)

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt stamps the header itself
        params = {
            "currency": order.coin,
            "chain": order.network,
            "address": order.address,
            "amount": order.amount,
            "withdraw_order_id": order.client_id,
        }
        if order.memo is not None:
            params["memo"] = order.memo
        return Call("privateWithdrawalsPostWithdrawals", params, moves_money=True)

    def withdrawal_by_client_id(self, client_id: str, window: Window) -> Call:
        return Call("privateWalletGetWithdrawals", {"withdraw_order_id": client_id, **_bounds(window)})

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:  # noqa: ARG002
        (withdrawal_id,) = withdrawal_ids
        return Call("privateWalletGetWithdrawals", {"withdraw_id": withdrawal_id})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateWalletGetWithdrawals", _page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(withdrawal_row(row) for row in rows(body, "withdrawals"))

    def arriving(self, row: WithdrawalRow) -> Decimal:
        return without_fee(row)

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privateWalletGetDeposits", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(deposit_row(row) for row in rows(body, "deposits"))

    def permissions(self) -> Call:
        return Call("privateAccountGetMainKeys")

    def read_permission_problem(self, body: Any) -> str | None:
        return key_problem(body)

    def server_time(self) -> Call:
        return Call("publicSpotGetTime")

    def read_server_time(self, body: Any) -> datetime:
        return moment(field(body, "server_time", "server time"))

    def networks(self, coin: str) -> tuple[Call, ...]:
        asked = {"currency": coin}
        return (Call("publicWalletGetCurrencyChains", asked), Call("privateWalletGetWithdrawStatus", asked))

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        chains, limits = (rows(body, "networks") for body in bodies)
        of_coin = [row for row in limits if coin_and_chain(row)[0] == coin]
        if len(of_coin) != 1:
            raise LookupFailed("MALFORMED", f"withdraw status: {len(of_coin)} rows of {coin} where one is due")
        return tuple(network_rules(row, of_coin[0]) for row in chains)

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privateSpotGetAccounts")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        return tuple(spot_balance(row) for row in rows(body, "balances"))

    def other_wallets(self) -> Mapping[str, Call]:
        return OTHER_WALLETS

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:
        return other_wallet(wallet, body)

    def address_book(self, coin: str) -> Call:
        return Call("privateWalletGetSavedAddress", {"currency": coin, "limit": str(_PAGE)})

    def read_address_book(self, body: Any) -> tuple[SavedAddress, ...]:
        return tuple(
            SavedAddress(
                name=str(field(row, "name", "address book")),
                network=chain_code(str(field(row, "chain", "address book"))),
                address=str(field(row, "address", "address book")),
                memo=text(row.get("tag")),
                usable=str(row.get("verified")) == "1",
            )
            for row in rows(body, "address book")
        )

    def deposit_address(self, coin: str, network: str) -> Call:  # noqa: ARG002 - all networks are answered
        return Call("privateWalletGetDepositAddress", {"currency": coin})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        return tuple(
            DepositAddress(
                network=chain_code(str(field(row, "chain", "deposit address"))),
                address=str(field(row, "address", "deposit address")),
                memo=text(row.get("payment_id")),
            )
            for row in rows(field(body, "multichain_addresses", "deposit address"), "deposit address")
            if str(row.get("obtain_failed") or "0") == "0"
        )


VENUE = GateVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    of_coin = {} if coin is None else {"currency": coin}
    return {**of_coin, "limit": str(_PAGE), "offset": cursor or "0", **_bounds(window)}


def _bounds(window: Window) -> dict[str, str]:
    """Whole seconds, both of them in: without them the venue tells of the last seven days alone."""
    return {"from": str(math.floor(window.start.timestamp())), "to": str(math.ceil(window.end.timestamp()))}
