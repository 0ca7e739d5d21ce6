"""Kraken's wire: errors in a list with HTTP 200, no id of ours, withdrawals to saved addresses only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.outcome import SubmitBody, SubmitRules
from qtg_dagster.lanes.cex.paging import ByToken
from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment_of_seconds, rows, seconds, step_of, text
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
    RowState,
    SavedAddress,
    Venue,
    Window,
    WithdrawalRow,
)

STATES: Mapping[str, RowState] = {
    "Initial": RowState.PENDING,
    "Pending": RowState.PENDING,
    "Settled": RowState.PENDING,
    "Success": RowState.DONE,
    "Failure": RowState.FAILED,
}
#: What stands beside a status and changes what it means; nothing else may stand there.
_WITHDRAWAL_PROPS: Mapping[str, RowState | None] = {
    "": None,
    "onhold": RowState.PENDING,
    "on-hold": RowState.PENDING,
    "cancel-pending": RowState.PENDING,
}
_DEPOSIT_PROPS: Mapping[str, RowState | None] = {"": None, "onhold": RowState.LOCKED, "on-hold": RowState.LOCKED}
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
    "EService:Unavailable": Access.MAINTENANCE,
}
#: Assets listed early have a class letter before their name; answers use it, and requests may.
_FIRST_NAMES: Mapping[str, str] = {
    **{f"X{name}": name for name in ("XBT", "ETH", "ETC", "LTC", "XRP", "XLM", "XMR", "XDG", "ZEC", "REP", "MLN")},
    **{f"Z{name}": name for name in ("USD", "EUR", "GBP", "CAD", "JPY", "AUD")},
    "BTC": "XBT",
    "DOGE": "XDG",
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
    that was taken gets the same answer.
    """

    ccxt_id = "kraken"
    payload_format = "kraken.withdraw.v1"
    wallet = "spot"
    fee_rule = FeeRule.FROM_AMOUNT
    identity = Identity.NONE
    request_lifetime = None  # until a higher nonce is taken, which is not ours to know
    history_window = timedelta(days=90)
    ids_per_lookup = 0
    withdrawal_pages = ByToken(lambda body: _next_cursor(body))
    deposit_pages = withdrawal_pages
    access_codes = ACCESS_CODES
    submit_cost = 3.0
    rate_window_seconds = 30.0
    submit_rules = SubmitRules(read=_read_submit, refusals=REFUSALS, duplicate_texts=("duplicate", "already exist"))
    one_request_at_a_time = True
    saved_addresses_only = True
    takes_fee_ceiling = True
    lists_closed_networks = False

    def coin_code(self, name: str) -> str:
        return _FIRST_NAMES.get(name, name)

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
        return tuple(_withdrawal(row) for row in _listed(body, "withdrawals"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:
        return Call("privatePostDepositStatus", _page(coin, window, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(_deposit(row) for row in _listed(body, "deposit"))

    def system_status(self) -> Call:
        return Call("publicGetSystemStatus")

    def read_system_problem(self, body: Any) -> str | None:
        status = str(field(_result(body, "system status"), "status", "system status"))
        return f"the venue reports {status}" if status == "maintenance" else None

    def permissions(self) -> Call:
        return Call("privatePostGetApiKeyInfo")

    def read_permission_problem(self, body: Any) -> str | None:
        rights = field(_result(body, "API key"), "permissions", "API key")
        if isinstance(rights, list) and "withdraw-funds" in rights:
            return None
        return "the API key may not withdraw; let it withdraw funds at the venue"

    def server_time(self) -> Call:
        return Call("publicGetTime")

    def read_server_time(self, body: Any) -> datetime:
        """In whole seconds: the middle of the second, so that half of it at most is taken for skew."""
        told = moment_of_seconds(field(_result(body, "server time"), "unixtime", "server time"))
        return told + timedelta(milliseconds=500)

    def networks(self, coin: str) -> tuple[Call, ...]:
        asked = {"asset": coin}
        return (Call("privatePostWithdrawMethods", asked), Call("publicGetAssets", asked))

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        methods, assets = bodies
        known = [asset for name, asset in _named(assets, "assets") if self.coin_code(name) == coin]
        if len(known) != 1:
            raise LookupFailed("MALFORMED", f"assets: {len(known)} entries for {coin}")
        step = step_of(field(known[0], "decimals", "assets"), "decimals")
        enabled = field(known[0], "status", "assets") in ("enabled", "withdrawal_only")
        return tuple(
            _network(self.network_code(str(field(row, "network", "methods"))), row, step, enabled)
            for row in rows(_result(methods, "methods"), "methods")
        )

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return Call("privatePostBalanceEx")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        """What is being withdrawn counts as held here."""
        return tuple(_balance(self.coin_code(name), row) for name, row in _named(body, "balances"))

    def other_wallets(self) -> Mapping[str, Call]:
        return {"earn": self.balances()}

    def read_other_wallet(self, wallet: str, body: Any) -> tuple[CoinBalance, ...]:  # noqa: ARG002 - there is one
        """What is staked or earns is listed beside the rest, under the coin's name and a letter for the way it does."""
        found: dict[str, CoinBalance] = {}
        for name, row in _named(body, "balances"):
            coin, _, way = name.rpartition(".")
            if way in _EARNING:
                seen = _balance(self.coin_code(coin), row)
                before = found.get(seen.coin, CoinBalance(seen.coin, Decimal(0), Decimal(0), Decimal(0)))
                found[seen.coin] = replace(before, free=before.free + seen.free, locked=before.locked + seen.locked)
        return tuple(found.values())

    def address_book(self, coin: str) -> Call:
        return Call("privatePostWithdrawAddresses", {"asset": coin})

    def read_address_book(self, body: Any) -> tuple[SavedAddress, ...]:
        return tuple(
            SavedAddress(
                name=str(field(row, "key", "address book")),
                network=_network_of(row) or "",
                address=str(field(row, "address", "address book")),
                memo=text(row.get("tag")) or text(row.get("memo")),
                usable=row.get("verified") is True,
            )
            for row in rows(_result(body, "address book"), "address book")
        )


VENUE = KrakenVenue()


def _result(body: Any, what: str) -> Any:
    errors = field(body, "error", what)
    if errors != []:
        raise LookupFailed("REFUSED", f"{what}: {errors}")
    return field(body, "result", what)


def _named(body: Any, what: str) -> Iterable[tuple[str, Any]]:
    """What is listed by asset."""
    found = _result(body, what)
    if not isinstance(found, dict):
        raise LookupFailed("MALFORMED", f"{what}: not an object")
    return found.items()


def _listed(body: Any, name: str) -> Sequence[Mapping[str, Any]]:
    """A page, or the plain list that is given without a cursor. Pages of deposits hold them under `deposit`."""
    result = _result(body, name)
    return rows(result if isinstance(result, list) else field(result, name, name), name)


def _next_cursor(body: Any) -> str | None:
    result = _result(body, "page")
    if not isinstance(result, dict):
        raise LookupFailed("MALFORMED", "page: a list without a cursor says nothing of what comes after it")
    return text(result.get("next_cursor"))


def _page(coin: str | None, window: Window, cursor: str | None) -> dict[str, str]:
    bounds = {"start": seconds(window.start), "end": seconds(window.end)}
    of_coin = {} if coin is None else {"asset": coin}
    return {**of_coin, "limit": str(_PAGE), "cursor": cursor or "true", **bounds}


def _network_of(row: Mapping[str, Any]) -> str | None:
    """The row's network, or what stands in brackets behind the coin in the name of its method."""
    method = str(row.get("method") or "")
    named = method.rpartition("(")[2].removesuffix(")") if method.endswith(")") else None
    return text(row.get("network")) or text(named)


def _state(row: Mapping[str, Any], props: Mapping[str, RowState | None]) -> tuple[RowState, str, bool]:
    status, prop = str(field(row, "status", "row")), str(row.get("status-prop") or "")
    raw = f"{status} {prop}".strip()
    if status not in STATES or prop not in props:
        return RowState.PENDING, raw, False
    return props[prop] or STATES[status], raw, True


def _withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    state, raw, listed = _state(row, _WITHDRAWAL_PROPS)
    if raw == "Failure canceled":
        state, listed = RowState.CANCELLED, True
    return WithdrawalRow(
        withdrawal_id=ident(row, "refid", "withdrawal"),
        client_id=None,
        coin=_FIRST_NAMES.get(coin := str(field(row, "asset", "withdrawal")), coin),
        network=_network_of(row),
        address=text(row.get("info")),
        memo=None,
        amount=decimal(field(row, "amount", "withdrawal"), "amount"),
        fee=decimal(row.get("fee") or "0", "fee"),
        state=state,
        raw_status=raw,
        status_listed=listed,
        tx_id=text(row.get("txid")),
        internal=False,
        applied_at=moment_of_seconds(row["time"]) if row.get("time") else None,
        raw=row,
        saved_as=text(row.get("key")),
    )


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    """One with `return` beside its status is our own withdrawal come back, not income: a person looks at it."""
    state, raw, listed = _state(row, _DEPOSIT_PROPS)
    return DepositRow(
        deposit_id=ident(row, "refid", "deposit"),
        coin=_FIRST_NAMES.get(coin := str(field(row, "asset", "deposit")), coin),
        network=_network_of(row),
        address=text(row.get("info")),
        memo=None,
        amount=decimal(field(row, "amount", "deposit"), "amount"),
        state=state,
        raw_status=raw,
        status_listed=listed,
        tx_id=text(row.get("txid")),
        inserted_at=moment_of_seconds(row["time"]) if row.get("time") else None,
        raw=row,
    )


def _network(network: str, row: Mapping[str, Any], step: Decimal, enabled: bool) -> NetworkRules:
    costs = row.get("fee")
    return NetworkRules(
        network=network,
        withdraw_enabled=enabled,
        fee=decimal(field(costs, "fee", "methods"), "fee"),
        minimum=decimal(field(row, "minimum", "methods"), "minimum"),
        maximum=None,
        step=step,
        memo_required=False,  # a memo lives in the saved address
        memo_allowed=True,
        memo_pattern="",
        address_pattern="",
    )


def _balance(coin: str, row: Any) -> CoinBalance:
    total, held = decimal(field(row, "balance", "balances"), "balance"), decimal(row.get("hold_trade") or "0", "held")
    return CoinBalance(coin=coin, free=max(total - held, Decimal(0)), locked=held, withdrawing=Decimal(0))
