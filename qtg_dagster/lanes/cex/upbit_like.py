"""The wires that Upbit began: the same endpoints and rows for several venues, none of which says where money went.

A lost withdrawal can be told by coin, network, amount and time alone, and those may be another's: it is taken for ours
only if the chain shows that its transaction paid our destination, and else by a person. What the venue answered a
request with is followed by its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from qtg_dagster.lanes.cex.outcome import SubmitBody, usable_id
from qtg_dagster.lanes.cex.paging import ByPageNumber
from qtg_dagster.lanes.cex.readings import (
    decimal,
    field,
    ident,
    moment_of_zone,
    rows,
    state_in,
    step_of,
    text,
)
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import (
    Call,
    CoinBalance,
    DepositAddress,
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

_PAGE = 100
_OPEN = frozenset({"working", "withdraw_only"})
_USUAL_DECIMALS = 8  # of the venues' own books, where the terms do not say how many digits an amount may have


def read_answer(body: Any) -> SubmitBody:
    """The withdrawal that was taken, or the name of an error; two ids that differ are none."""
    if not isinstance(body, dict):
        return SubmitBody()
    error = body.get("error")
    shown = {usable_id(body.get(name)) for name in ("uuid", "withdrawal_id")} - {None}
    name = error.get("name") if isinstance(error, dict) else error
    told = body.get("status") if name is None else name  # an older kind of answer carries a status of its own
    return SubmitBody(
        error_code=None if told is None else str(told),
        message=str((error.get("message") if isinstance(error, dict) else body.get("message")) or ""),
        withdrawal_id=next(iter(shown)) if len(shown) == 1 else None,
        success="error" not in body and "status" not in body and body.get("type") in (None, "withdraw"),
    )


class UpbitLikeVenue(Venue):
    """Whether the fee is taken out of an amount or beside it is not documented.

    Destinations are registered at the venue beforehand. The venues' names of networks (`net_type`) are their own, and
    are used as the inventory gives them.
    """

    wallet = "spot"
    fee_rule = FeeRule.EITHER
    identity = Identity.NONE
    request_lifetime = None
    history_window = timedelta(days=90)
    ids_per_lookup = 1
    no_row_codes = frozenset({"withdraw_not_found"})
    withdrawal_pages = deposit_pages = ByPageNumber(_PAGE)
    newest_first = True
    rows_show_destination = deposits_show_destination = False
    saved_addresses_only = True
    time_in_header = True
    endpoints: ClassVar[str]  # what stands before a path in the names of ccxt's methods
    withdrawal_states: ClassVar[Mapping[str, RowState]]
    deposit_states: ClassVar[Mapping[str, RowState]]

    def network_code(self, name: str) -> str:
        return name

    def submit(self, order: Order, signed_at: datetime) -> Call:  # noqa: ARG002 - ccxt makes the token
        params = {"currency": order.coin, "net_type": order.network, "amount": order.amount, "address": order.address}
        if order.memo is not None:
            params["secondary_address"] = order.memo
        return Call(f"privatePost{self.endpoints}WithdrawsCoin", params, moves_money=True)

    def withdrawals_by_ids(self, withdrawal_ids: Sequence[str], coin: str, window: Window) -> Call:  # noqa: ARG002
        (withdrawal_id,) = withdrawal_ids
        of_coin = {"currency": coin} if self.ids_of_one_coin else {}
        return self._get("Withdraw", {"uuid": withdrawal_id, **of_coin})

    def withdrawals(self, coin: str | None, window: Window, cursor: str | None) -> Call:  # noqa: ARG002 - takes none
        return self._get("Withdraws", _page(coin, cursor))

    def read_withdrawals(self, body: Any) -> tuple[WithdrawalRow, ...]:
        """A page, or the one row that was asked for."""
        listed = [body] if isinstance(body, dict) else body
        return tuple(self._withdrawal(row) for row in rows(listed, "withdrawals"))

    def deposits(self, coin: str | None, window: Window, cursor: str | None) -> Call:  # noqa: ARG002 - takes none
        return self._get("Deposits", _page(coin, cursor))

    def read_deposits(self, body: Any) -> tuple[DepositRow, ...]:
        return tuple(self._deposit(row) for row in rows(body, "deposits"))

    def permissions(self) -> Call:
        return self._get("ApiKeys")

    def read_permission_problem(self, body: Any) -> str | None:
        """The keys are told with the end of their life, and not what they may do: a withdrawal shows that."""
        rows(body, "API keys")
        return None

    def server_time(self) -> Call:
        """A signed look, which nothing on the way answers in the venue's place."""
        return self._get("ApiKeys")

    def read_server_time(self, body: Any) -> datetime:
        """In whole seconds: the middle of the second, so that half of it at most is taken for skew."""
        if not isinstance(body, datetime):
            raise LookupFailed("NO_DATE", "the answer has no Date that can be read")
        return body + timedelta(milliseconds=500)

    def networks(self, coin: str) -> tuple[Call, ...]:  # noqa: ARG002 - all coins are answered
        return (self._get("StatusWallet"),)

    def read_networks(self, bodies: Sequence[Any], coin: str) -> tuple[NetworkRules, ...]:
        """Which networks there are, and which are open; fee and bounds are told one network at a time."""
        (body,) = bodies
        return tuple(_network(row) for row in rows(body, "wallets") if row.get("currency") == coin)

    def terms(self, coin: str, network: str) -> Call:
        return self._get("WithdrawsChance", {"currency": coin, "net_type": network})

    def read_terms(self, body: Any, rules: NetworkRules) -> NetworkRules:
        currency, limit = field(body, "currency", "terms"), field(body, "withdraw_limit", "terms")
        member = body.get("member_level") or {}
        may = not member.get("locked") and not member.get("wallet_locked") and limit.get("can_withdraw") is not False
        digits, most = limit.get("fixed"), limit.get("onetime")
        return replace(
            rules,
            withdraw_enabled=rules.withdraw_enabled
            and may
            and "withdraw" in field(currency, "wallet_support", "terms"),
            fee=_fee(currency),
            minimum=decimal(limit.get("minimum") or "0", "minimum"),
            maximum=None if most is None else decimal(most, "onetime"),
            step=step_of(_USUAL_DECIMALS if digits is None else digits, "fixed"),
        )

    def balances(self, cursor: str | None = None) -> Call:  # noqa: ARG002 - one answer holds all
        return self._get("Accounts")

    def read_balances(self, body: Any) -> tuple[CoinBalance, ...]:
        """What is being withdrawn counts as locked here."""
        return tuple(
            CoinBalance(
                coin=str(field(row, "currency", "balance")),
                free=decimal(field(row, "balance", "balance"), "balance"),
                locked=decimal(row.get("locked") or "0", "locked"),
                withdrawing=Decimal(0),
            )
            for row in rows(body, "balances")
        )

    def address_book(self, coin: str) -> Call:  # noqa: ARG002 - all coins are answered
        return self._get("WithdrawsCoinAddresses")

    def read_address_book(self, body: Any) -> tuple[SavedAddress, ...]:
        """Entries have no names of their own; only those that may be paid are listed."""
        return tuple(
            SavedAddress(
                name=str(field(row, "withdraw_address", "address book")),
                network=str(field(row, "net_type", "address book")),
                address=str(field(row, "withdraw_address", "address book")),
                memo=text(row.get("secondary_address")),
                usable=True,
                coin=str(field(row, "currency", "address book")),
            )
            for row in rows(body, "address book")
        )

    def deposit_address(self, coin: str, network: str) -> Call:
        return self._get("DepositsCoinAddress", {"currency": coin, "net_type": network})

    def read_deposit_addresses(self, body: Any, network: str) -> tuple[DepositAddress, ...]:  # noqa: ARG002
        address = text(field(body, "deposit_address", "deposit address"))
        if address is None:
            raise LookupFailed("MALFORMED", "deposit address: it is blank")
        named = str(field(body, "net_type", "deposit address"))
        return (DepositAddress(named, address, text(body.get("secondary_address"))),)

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Call:
        return Call(f"privateGet{self.endpoints}{path}", params or {})

    def _withdrawal(self, row: Mapping[str, Any]) -> WithdrawalRow:
        status = _of_type(row, "withdraw")
        state, listed = state_in(self.withdrawal_states, status)
        return WithdrawalRow(
            withdrawal_id=ident(row, "uuid", "withdrawal"),
            client_id=None,
            coin=str(field(row, "currency", "withdrawal")),
            network=text(row.get("net_type")),
            address=None,
            memo=None,
            amount=decimal(field(row, "amount", "withdrawal"), "amount"),
            fee=decimal(row.get("fee") or "0", "fee"),
            state=state,
            raw_status=status,
            status_listed=listed,
            tx_id=text(row.get("txid")),
            internal=row.get("transaction_type") == "internal",
            applied_at=moment_of_zone(row["created_at"]) if row.get("created_at") else None,
            raw=row,
        )

    def _deposit(self, row: Mapping[str, Any]) -> DepositRow:
        status = _of_type(row, "deposit")
        state, listed = state_in(self.deposit_states, status)
        return DepositRow(
            deposit_id=ident(row, "uuid", "deposit"),
            coin=str(field(row, "currency", "deposit")),
            network=text(row.get("net_type")),
            address=None,
            memo=None,
            amount=decimal(field(row, "amount", "deposit"), "amount"),
            state=state,
            raw_status=status,
            status_listed=listed,
            tx_id=text(row.get("txid")),
            inserted_at=moment_of_zone(row["created_at"]) if row.get("created_at") else None,
            raw=row,
        )


def _page(coin: str | None, cursor: str | None) -> dict[str, str]:
    """Newest first: a row that comes in between shows rows twice, and hides none."""
    of_coin = {} if coin is None else {"currency": coin}
    return {**of_coin, "limit": str(_PAGE), "page": cursor or "1", "order_by": "desc"}


def _of_type(row: Mapping[str, Any], kind: str) -> str:
    """The status of a row, in capitals as newer answers have it; a row of the other history is none of this one."""
    if row.get("type") not in (None, kind):
        raise LookupFailed("MALFORMED", f"a row of type {row['type']!r} among those of {kind}")
    return str(field(row, "state", kind)).upper()


def _fee(currency: Mapping[str, Any]) -> Decimal:
    """The fee, or the most that it can be where it is a share of the amount."""
    if currency.get("withdraw_fee") is not None:
        return decimal(currency["withdraw_fee"], "withdraw_fee")
    return decimal(field(currency, "withdraw_fee_max", "terms"), "withdraw_fee_max")


def _network(row: Mapping[str, Any]) -> NetworkRules:
    return NetworkRules(
        network=str(field(row, "net_type", "wallets")),
        withdraw_enabled=field(row, "wallet_state", "wallets") in _OPEN,
        fee=Decimal(0),
        minimum=Decimal(0),
        maximum=None,
        step=step_of(_USUAL_DECIMALS, "decimals"),
        memo_required=False,  # a memo is registered with its address
        memo_allowed=True,
        memo_pattern="",
        address_pattern="",
    )
