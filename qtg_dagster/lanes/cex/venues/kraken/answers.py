"""Kraken's answers: the envelope, names of assets, and rows of withdrawals, deposits, networks and balances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment_of_seconds, rows, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import CoinBalance, DepositRow, NetworkRules, RowState, WithdrawalRow

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
#: Assets listed early have a class letter before their name; answers use it, and requests may.
FIRST_NAMES: Mapping[str, str] = {
    **{f"X{name}": name for name in ("XBT", "ETH", "ETC", "LTC", "XRP", "XLM", "XMR", "XDG", "ZEC", "REP", "MLN")},
    **{f"Z{name}": name for name in ("USD", "EUR", "GBP", "CAD", "JPY", "AUD")},
    "BTC": "XBT",
    "DOGE": "XDG",
}


def result_of(body: Any, what: str) -> Any:
    errors = field(body, "error", what)
    if errors != []:
        raise LookupFailed("REFUSED", f"{what}: {errors}")
    return field(body, "result", what)


def named(body: Any, what: str) -> Iterable[tuple[str, Any]]:
    """What is listed by asset."""
    found = result_of(body, what)
    if not isinstance(found, dict):
        raise LookupFailed("MALFORMED", f"{what}: not an object")
    return found.items()


def listed(body: Any, name: str) -> Sequence[Mapping[str, Any]]:
    """A page, or the plain list that is given without a cursor. Pages of deposits hold them under `deposit`."""
    result = result_of(body, name)
    return rows(result if isinstance(result, list) else field(result, name, name), name)


def next_cursor(body: Any) -> str | None:
    result = result_of(body, "page")
    if not isinstance(result, dict):
        raise LookupFailed("MALFORMED", "page: a list without a cursor says nothing of what comes after it")
    return text(result.get("next_cursor"))


def network_of(row: Mapping[str, Any]) -> str | None:
    """The row's network, or what stands in brackets behind the coin in the name of its method: a kind of address in
    older names, which tells of no network.
    """
    method = str(row.get("method") or "")
    named = method.rpartition("(")[2].removesuffix(")") if method.endswith(")") else None
    return text(row.get("network")) or (None if named == "Hex" else text(named))


def _state(row: Mapping[str, Any], props: Mapping[str, RowState | None]) -> tuple[RowState, str, bool]:
    status, prop = str(field(row, "status", "row")), str(row.get("status-prop") or "")
    raw = f"{status} {prop}".strip()
    if status not in STATES or prop not in props:
        return RowState.PENDING, raw, False
    return props[prop] or STATES[status], raw, True


def withdrawal_row(row: Mapping[str, Any]) -> WithdrawalRow:
    state, raw, listed = _state(row, _WITHDRAWAL_PROPS)
    if raw == "Failure canceled":
        state, listed = RowState.CANCELLED, True
    return WithdrawalRow(
        withdrawal_id=ident(row, "refid", "withdrawal"),
        client_id=None,
        coin=FIRST_NAMES.get(coin := str(field(row, "asset", "withdrawal")), coin),
        network=network_of(row),
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


def deposit_row(row: Mapping[str, Any]) -> DepositRow:
    """One with `return` beside its status is our own withdrawal come back, not income: a person looks at it."""
    state, raw, listed = _state(row, _DEPOSIT_PROPS)
    return DepositRow(
        deposit_id=ident(row, "refid", "deposit"),
        coin=FIRST_NAMES.get(coin := str(field(row, "asset", "deposit")), coin),
        network=network_of(row),
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


def network_rules(network: str, row: Mapping[str, Any], step: Decimal, enabled: bool) -> NetworkRules:
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


def balance_of(coin: str, row: Any) -> CoinBalance:
    total, held = decimal(field(row, "balance", "balances"), "balance"), decimal(row.get("hold_trade") or "0", "held")
    return CoinBalance(coin=coin, free=max(total - held, Decimal(0)), locked=held, withdrawing=Decimal(0))
