"""Kraken's wire: errors in a list with HTTP 200, no id of ours, withdrawals to saved addresses only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import ByToken
from qtg_dagster.lanes.cex.readings import field, moment_of_seconds, rows, seconds, step_of, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import (
    Access,
    Call,
    CoinBalance,
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
from qtg_dagster.lanes.cex.venues.kraken.answers import (
    FIRST_NAMES,
    balance_of,
    deposit_row,
    listed,
    named,
    network_of,
    network_rules,
    next_cursor,
    result_of,
    withdrawal_row,
)

_FUNDING = ("Unknown withdraw key", "Unknown asset", "Insufficient funds", "Max fee exceeded")
REFUSALS = frozenset(
    {"EAPI:Invalid key", "EAPI:Invalid signature", "EGeneral:Permission denied"}
    | {f"EFunding:{reason}" for reason in _FUNDING}
)
ACCESS_CODES: Mapping[str, Access] = {
    "EAPI:Invalid key": Access.WRONG_KEY,
    "EAPI:Invalid signature": Access.WRONG_SIGNATURE,
    "EAPI:Invalid nonce": Access.NONCE,
    "EGeneral:Permission denied": Access.NO_PERMISSION,
    "EGeneral:Temporary lockout": Access.LOCKED_OUT,
    "EService:Unavailable": Access.MAINTENANCE,
}
#: Flexible, staked, opted in to rewards, bonded, parachain.
_EARNING = frozenset("FSMBP")
NETWORK_ALIASES = {"ETH": "Ethereum", "ERC20": "Ethereum", "TRX": "Tron", "TRC20": "Tron", "SOL": "Solana"}
_PAGE = 500


def _read_submit(body: Any) -> SubmitBody:
    if not isinstance(body, dict):
        return SubmitBody()
    errors, result = body.get("error"), body.get("result")
    found = [str(error) for error in errors] if isinstance(errors, list) else ["no list of errors"]
    return SubmitBody(
        error_code=", ".join(found) or None,
        message=", ".join(found),
        withdrawal_id=result.get("refid") if isinstance(result, dict) else None,
        success=not found,
    )


class KrakenVenue(Venue):
    """The fee is taken out of what is asked for. A withdrawal is told by what it is: nothing in it is ours to choose.

    Nonces must rise, so requests go one after another. A refused nonce is not among the refusals: a copy of a request
    that was taken gets the same answer. A key with a nonce window may let such a copy through.
    """

    ccxt_id = "kraken"
    payload_format = "kraken.withdraw.v1"
    wallet = "spot"
    fee_rule = FeeRule.FROM_AMOUNT
    identity = Identity.NONE
    request_lifetime = None  # until a higher nonce is taken, which is not ours to know
    history_window = timedelta(days=90)
    ids_per_lookup = 0
    withdrawal_pages = ByToken(lambda body: next_cursor(body))
    deposit_pages = withdrawal_pages
    access_codes = ACCESS_CODES
    submit_cost = 3.0
    rate_window_seconds = 30.0
    submit_rules = SubmitRules(
        read=_read_submit,
        refusals=REFUSALS,
        confirm_first=frozenset({"EFunding:Insufficient funds"}),  # a copy within the key's window finds the rest
        duplicate_texts=("duplicate", "already exist"),
    )
    one_request_at_a_time = True
    takes_copies = True
    saved_addresses_only = True
    takes_fee_ceiling = True
    lists_closed_networks = False

    def coin_code(self, name: str) -> str:
        return FIRST_NAMES.get(name, name)

    def network_code(self, name: str) -> str:
        return NETWORK_ALIASES.get(name.upper(), name)

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt counts the nonces
        if order.saved_as is None:
            raise LookupFailed("NOT_SAVED", "the destination's name in the address book is not known")
        # The address is not needed: the venue refuses a name that leads elsewhere by now.
        params = {"asset": order.coin, "key": order.saved_as, "address": order.address, "amount": order.amount}
        if order.max_fee is not None:
            params["max_fee"] = order.max_fee
        return Call("privatePostWithdraw", params, moves_money=True)

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privatePostWithdrawStatus", _page(coin, window, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        return tuple(withdrawal_row(row) for row in listed(body, "withdrawals"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privatePostDepositStatus", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(deposit_row(row) for row in listed(body, "deposit"))

    def read_error(self, body: Any) -> SubmitBody:
        """Of several errors, the one that keeps us out."""
        seen = super().read_error(body)
        errors = body.get("error") if isinstance(body, dict) else None
        told = [str(error) for error in errors if str(error) in ACCESS_CODES] if isinstance(errors, list) else []
        return replace(seen, error_code=told[0]) if told else seen

    def system_status(self) -> Call:
        return Call("publicGetSystemStatus")

    def read_system_problem(self, body: Any) -> str | None:
        status = str(field(result_of(body, "system status"), "status", "system status"))
        return f"the venue reports {status}" if status == "maintenance" else None

    def permissions(self) -> Call:
        return Call("privatePostGetApiKeyInfo")

    def read_permission_problem(self, body: Any) -> str | None:
        rights = field(result_of(body, "API key"), "permissions", "API key")
        if isinstance(rights, list) and "withdraw-funds" in rights:
            return None
        return "the API key may not withdraw; let it withdraw funds at the venue"

    def server_time(self) -> Call:
        return Call("publicGetTime")

    def read_server_time(self, body: Any) -> datetime:
        """In whole seconds: the middle of the second, so that half of it at most is taken for skew."""
        told = moment_of_seconds(field(result_of(body, "server time"), "unixtime", "server time"))
        return told + timedelta(milliseconds=500)

    def networks(self, coin: str) -> tuple[Call, ...]:
        asked = {"asset": coin}
        return (Call("privatePostWithdrawMethods", asked), Call("publicGetAssets", asked))

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        methods, assets = bodies
        known = [asset for name, asset in named(assets, "assets") if self.coin_code(name) == coin]
        if len(known) != 1:
            raise LookupFailed("MALFORMED", f"assets: {len(known)} entries for {coin}")
        step = step_of(field(known[0], "decimals", "assets"), "decimals")
        enabled = field(known[0], "status", "assets") in ("enabled", "withdrawal_only")
        return tuple(
            network_rules(self.network_code(str(field(row, "network", "methods"))), row, step, enabled)
            for row in rows(result_of(methods, "methods"), "methods")
        )

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privatePostBalanceEx")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        """What is being withdrawn counts as held here."""
        return tuple(balance_of(self.coin_code(name), row) for name, row in named(body, "balances"))

    def other_wallets(self) -> Mapping[str, Call]:
        return {"earn": self.balances()}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:  # noqa: ARG002 - there is one
        """What is staked or earns is listed beside the rest, under the coin's name and a letter for the way it does."""
        found: dict[str, CoinBalance] = {}
        for name, row in named(body, "balances"):
            coin, _, way = name.rpartition(".")
            if way in _EARNING:
                seen = balance_of(self.coin_code(coin), row)
                before = found.get(seen.coin, CoinBalance(seen.coin, Decimal(0), Decimal(0), Decimal(0)))
                found[seen.coin] = replace(before, free=before.free + seen.free, locked=before.locked + seen.locked)
        return tuple(found.values())

    def address_book(self, coin: str) -> Call:
        return Call("privatePostWithdrawAddresses", {"asset": coin})

    def read_address_book(self, body: Any) -> tuple[SavedAddress, ...]:
        return tuple(
            SavedAddress(
                name=str(field(row, "key", "address book")),
                network=network_of(row) or "",
                address=str(field(row, "address", "address book")),
                memo=text(row.get("tag")) or text(row.get("memo")),
                usable=row.get("verified") is True,
            )
            for row in rows(result_of(body, "address book"), "address book")
        )


VENUE = KrakenVenue()


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    bounds = {"start": seconds(window.start), "end": seconds(window.end)}
    of_coin = {} if coin is None else {"asset": coin}
    return {**of_coin, "limit": str(_PAGE), "cursor": cursor or "true", **bounds}
