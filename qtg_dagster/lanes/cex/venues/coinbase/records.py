"""What Coinbase's answers say: transactions of one account, and the account itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qs, urlsplit

from qtg_dagster.lanes.cex.matching import EXACT
from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment_of_zone, rows, state_in, step_of, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import CoinBalance, DepositRow, NetworkRules, RowState, WithdrawalRow

STATES: Mapping[str, RowState] = {
    "pending": RowState.PENDING,
    "waiting_for_clearing": RowState.PENDING,
    "waiting_for_signature": RowState.PENDING,
    "completed": RowState.DONE,
    "failed": RowState.FAILED,
    "expired": RowState.FAILED,
    "canceled": RowState.CANCELLED,
}
DEPOSIT_STATES: Mapping[str, RowState] = {**STATES, "waiting_for_clearing": RowState.LOCKED}
#: The venue tells no networks: what is not among these is a misspelling.
NETWORKS = (
    *("arbitrum", "avacchain", "base", "bitcoin", "bitcoincash", "cardano", "cosmos", "dogecoin", "ethereum"),
    *("litecoin", "near", "optimism", "polkadot", "polygon", "ripple", "solana", "stellar", "sui", "tezos"),
)
_SENT = frozenset({"send", "receive"})
_CAME = _SENT | {"tx"}  # what the venue has not sorted yet is a `tx`
_OFF_CHAIN = "off_blockchain"


def next_page(body: Any) -> str | None:
    """The id that the next page starts after, by itself or in a link; none on the last page.

    A page that says nothing of either may have been cut.
    """
    pages = field(body, "pagination", "page")
    if not isinstance(pages, dict) or not {"next_starting_after", "next_uri"} & set(pages):
        raise LookupFailed("MALFORMED", "page: nothing says what comes after it")
    named, link = text(pages.get("next_starting_after")), text(pages.get("next_uri"))
    if named is not None or link is None:
        return named
    found = parse_qs(urlsplit(link).query).get("starting_after")
    if not found:
        raise LookupFailed("MALFORMED", f"page: {link!r} does not say where the next one starts")
    return found[0]


def newest_in(body: Any) -> datetime | None:
    """The time of a page's newest transaction, of whatever kind."""
    return max((moment_of_zone(row["created_at"]) for row in _listed(body) if row.get("created_at")), default=None)


def withdrawals_in(body: Any) -> tuple[WithdrawalRow, ...]:
    """What was sent: by its type, or by an id of its sender, which nothing else has, whatever its type is so far."""
    return tuple(_withdrawal(row) for row in _listed(body) if _is_sent(row) and _signed(row) < 0)


def deposits_in(body: Any) -> tuple[DepositRow, ...]:
    """What came in over a network or from another customer."""
    return tuple(_deposit(row) for row in _listed(body) if row.get("type") in _CAME and _signed(row) > 0)


def _listed(body: Any) -> Sequence[Mapping[str, Any]]:
    return rows(field(body, "data", "transactions"), "transactions")


def _is_sent(row: Mapping[str, Any]) -> bool:
    return row.get("type") in _SENT or text(row.get("idem")) is not None


def _signed(row: Mapping[str, Any]) -> Decimal:
    told = str(field(field(row, "amount", "transaction"), "amount", "transaction"))
    try:
        number = Decimal(told)
    except InvalidOperation as error:
        raise LookupFailed("MALFORMED", f"amount: {told!r} is no number") from error
    if not number.is_finite():
        raise LookupFailed("MALFORMED", f"amount: {told!r} is no amount")
    return number


def _withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    """`amount` is what arrives. The venue's own id of a row is no transaction: one that is pending has none yet."""
    network, to = _part(row, "network"), _part(row, "to")
    status = str(field(row, "status", "transaction"))
    state, listed = state_in(STATES, status)
    coin = str(field(row["amount"], "currency", "transaction"))
    arrives, fee = _split(_signed(row).copy_negate(), coin, network)
    return WithdrawalRow(
        withdrawal_id=ident(row, "id", "transaction"),
        client_id=text(row.get("idem")),
        coin=coin,
        network=text(network.get("network_name")),
        address=text(to.get("address")) or text(_part(to, "address_info").get("address")),
        memo=destination_tag(to),
        amount=arrives,
        fee=fee,
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(network.get("hash")),
        internal=network.get("status") == _OFF_CHAIN,
        applied_at=moment_of_zone(row["created_at"]) if row.get("created_at") else None,
        raw=row,
    )


def _deposit(row: Mapping[str, Any]) -> DepositRow:
    network = _part(row, "network")
    status = str(field(row, "status", "transaction"))
    state, listed = state_in(DEPOSIT_STATES, status)
    return DepositRow(
        deposit_id=ident(row, "id", "transaction"),
        coin=str(field(row["amount"], "currency", "transaction")),
        network=text(network.get("network_name")),
        address=text(_part(row, "to").get("address")),
        memo=destination_tag(_part(row, "to")),
        amount=_signed(row),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(network.get("hash")),
        inserted_at=moment_of_zone(row["created_at"]) if row.get("created_at") else None,
        raw=row,
    )


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}


def destination_tag(place: Mapping[str, Any]) -> str | None:
    """Beside the address in `address_info`, or in older rows beside the address itself."""
    return text(_part(place, "address_info").get("destination_tag")) or text(place.get("destination_tag"))


def _split(total: Decimal, coin: str, network: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    """What arrives, and the fee. One that is paid in another coin takes nothing from this one."""
    fee, arrives = (_money(network, name, coin) for name in ("transaction_fee", "transaction_amount"))
    if arrives is None:
        arrives = EXACT.subtract(total, fee or Decimal(0))
    if arrives < 0:
        raise LookupFailed("MALFORMED", "transaction: its fee is more than all of it")
    return arrives, fee or Decimal(0)


def _money(network: Mapping[str, Any], name: str, coin: str) -> Decimal | None:
    told = _part(network, name)
    return decimal(told.get("amount"), name) if told.get("currency") == coin else None


def network_rules(account: Any, coin: str) -> tuple[NetworkRules, ...]:
    """One and the same for every network that there is: the venue tells of the account alone."""
    currency = field(account, "currency", "account")
    if field(currency, "code", "account") != coin:
        raise LookupFailed("MALFORMED", f"account: of {currency['code']!r} where {coin} was asked for")
    step = step_of(field(currency, "exponent", "account"), "exponent")
    return tuple(
        NetworkRules(
            network=name,
            withdraw_enabled=account.get("allow_withdrawals") is not False,  # which newer answers leave out
            fee=Decimal(0),
            minimum=step,
            maximum=None,
            step=step,
            memo_required=False,
            memo_allowed=True,
            memo_pattern="",
            address_pattern="",
            fee_known=False,
        )
        for name in NETWORKS
    )


def balance(row: Mapping[str, Any]) -> CoinBalance:
    """What is held back is not in it."""
    told = field(row, "balance", "accounts")
    coin = str(field(told, "currency", "accounts"))
    return CoinBalance(coin, decimal(field(told, "amount", "accounts"), "balance"), Decimal(0), Decimal(0))
