"""What Bybit's answers say, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import Any

from qtg_dagster.lanes.cex.paging import Rows
from qtg_dagster.lanes.cex.readings import decimal, field, ident, moment, state_in, step_of, text
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import CoinBalance, DepositRow, NetworkRules, RowState, SavedAddress, WithdrawalRow

WITHDRAWAL_STATES: Mapping[str, RowState] = {
    "SecurityCheck": RowState.PENDING,
    "Pending": RowState.PENDING,
    "MoreInformationRequired": RowState.PENDING,
    "Unknown": RowState.PENDING,
    "BlockchainConfirmed": RowState.PENDING,  # on the chain, and not yet said to be a success
    "success": RowState.DONE,
    "Fail": RowState.FAILED,
    "Reject": RowState.FAILED,
    "CancelByUser": RowState.CANCELLED,
}
DEPOSIT_STATES: Mapping[str, RowState] = {
    **dict.fromkeys(("0", "1", "2", "10011"), RowState.PENDING),
    "7": RowState.PENDING,  # being rolled back
    "3": RowState.DONE,
    "10012": RowState.DONE,
    "70012": RowState.DONE,
    "4": RowState.FAILED,
    "70011": RowState.FAILED,  # was credited, and taken back
    "70013": RowState.HELD,
}
INTERNAL_DEPOSIT_STATES: Mapping[str, RowState] = {
    "1": RowState.PENDING,
    "2": RowState.DONE,
    "3": RowState.FAILED,
}
#: The venue's name for a saved address that any coin of its chain may be sent to.
ANY_COIN = "baseCoin"
_OFF_CHAIN = "1"
_FINEST_SHARE = Decimal("1e-12")
_ON_CHAIN_RECORD, _INTERNAL_RECORD = "chain:", "internal:"


def result(body: Any) -> Any:
    """What stands in the envelope of a success."""
    code = str(field(body, "retCode", "answer"))
    if code != "0":
        raise LookupFailed(f"CODE_{code}", str(body.get("retMsg") or "no reason given"))
    return field(body, "result", "answer")


def next_cursor(body: Any) -> str | None:
    """The cursor of the next page; an empty one ends the record."""
    return text(field(result(body), "nextPageCursor", "page"))


class InBothRecords:
    """Deposits over a chain page by page, then those between customers: a cursor says which record it belongs to."""

    def following(self, body: Any, rows: Rows, cursor: str | None) -> str | None:  # noqa: ARG002
        record = _INTERNAL_RECORD if cursor is not None and cursor.startswith(_INTERNAL_RECORD) else _ON_CHAIN_RECORD
        token = next_cursor(body)
        if token is None:
            return _INTERNAL_RECORD if record is _ON_CHAIN_RECORD else None
        if record + token == cursor:
            raise LookupFailed("PAGES_STAND_STILL", "a page leads to itself: what comes after it cannot be read")
        return record + token


def endpoint_of(cursor: str | None) -> tuple[str, str | None]:
    """Which deposits a cursor asks for, and the venue's own part of it."""
    if cursor is not None and cursor.startswith(_INTERNAL_RECORD):
        return "privateGetV5AssetDepositQueryInternalRecord", cursor.removeprefix(_INTERNAL_RECORD) or None
    return "privateGetV5AssetDepositQueryRecord", None if cursor is None else cursor.removeprefix(_ON_CHAIN_RECORD)


def withdrawal(row: Mapping[str, Any]) -> WithdrawalRow:
    """`amount` arrives; the fee was taken beside it."""
    status = str(field(row, "status", "withdrawal"))
    state, listed = state_in(WITHDRAWAL_STATES, status)
    return WithdrawalRow(
        withdrawal_id=ident(row, "withdrawId", "withdrawal"),
        client_id=None,
        coin=str(field(row, "coin", "withdrawal")),
        network=text(row.get("chain")),
        address=text(row.get("toAddress")),
        memo=text(row.get("tag")),
        amount=decimal(field(row, "amount", "withdrawal"), "amount"),
        fee=decimal(row.get("withdrawFee") or "0", "withdrawFee"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txID")),
        internal=str(row.get("withdrawType")) == _OFF_CHAIN,
        applied_at=moment(row["createTime"]) if row.get("createTime") else None,
        raw=row,
    )


def deposit(row: Mapping[str, Any]) -> DepositRow:
    """A deposit by the endpoint that was asked, fee or not; one that is on its way has no time."""
    status = str(field(row, "status", "deposit"))
    state, listed = state_in(DEPOSIT_STATES, status)
    at = text(row.get("successAt"))
    return DepositRow(
        deposit_id=text(row.get("id")) or _place_in_transaction(row),
        coin=str(field(row, "coin", "deposit")),
        network=text(row.get("chain")),
        address=text(row.get("toAddress")),
        memo=text(row.get("tag")),
        amount=decimal(field(row, "amount", "deposit"), "amount"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=text(row.get("txID")),
        inserted_at=None if at in (None, "0") else moment(at),
        raw=row,
    )


def internal_deposit(row: Mapping[str, Any]) -> DepositRow:
    """A deposit from another customer. It has no transaction; its `address` is that customer's e-mail or phone."""
    status = str(field(row, "status", "internal deposit"))
    state, listed = state_in(INTERNAL_DEPOSIT_STATES, status)
    return DepositRow(
        deposit_id=f"internal:{ident(row, 'id', 'internal deposit')}",
        coin=str(field(row, "coin", "internal deposit")),
        network=None,
        address=None,
        memo=None,
        amount=decimal(field(row, "amount", "internal deposit"), "amount"),
        state=state,
        raw_status=status,
        status_listed=listed,
        tx_id=None,
        inserted_at=_created(row["createdTime"]),
        raw={name: value for name, value in row.items() if name != "address"},
    )


def network_rules(entry: Mapping[str, Any], row: Mapping[str, Any]) -> NetworkRules:
    """An empty fee means that nothing can be withdrawn that way."""
    fee, most = text(row.get("withdrawFee")), text(entry.get("remainAmount"))
    return NetworkRules(
        network=str(field(row, "chain", "chains")),
        withdraw_enabled=str(row.get("chainWithdraw")) == "1" and fee is not None,
        fee=decimal(fee or "0", "withdrawFee"),
        minimum=decimal(field(row, "withdrawMin", "chains"), "withdrawMin"),
        maximum=decimal(most, "remainAmount") if most else None,
        step=step_of(field(row, "minAccuracy", "chains"), "minAccuracy"),
        memo_required=False,  # the venue's address book knows, and its entry is compared with the memo
        memo_allowed=True,
        memo_pattern="",
        address_pattern="",
        fee_rate=_beside(decimal(row.get("withdrawPercentageFee") or "0", "withdrawPercentageFee")),
    )


def _beside(share: Decimal) -> Decimal:
    """A share of all that leaves the account, as a part of what arrives: the fee is reckoned from the whole."""
    if share >= 1:
        raise LookupFailed("MALFORMED", f"withdrawPercentageFee: {share} leaves nothing")
    return (share / (1 - share)).quantize(_FINEST_SHARE, rounding=ROUND_UP).normalize()


def funding_balance(row: Mapping[str, Any]) -> CoinBalance:
    """What can be transferred is free; all else is held, what is being withdrawn too."""
    total = decimal(field(row, "walletBalance", "balances"), "walletBalance")
    free = decimal(field(row, "transferBalance", "balances"), "transferBalance")
    return CoinBalance(str(field(row, "coin", "balances")), free, max(total - free, Decimal(0)), Decimal(0))


def trading_balance(row: Mapping[str, Any]) -> CoinBalance:
    """The unified trading account; what is owed there is not shown as less than nothing."""
    total = max(Decimal(0), Decimal(str(field(row, "walletBalance", "balances"))))
    locked = min(total, decimal(row.get("locked") or "0", "locked"))
    return CoinBalance(str(field(row, "coin", "balances")), total - locked, locked, Decimal(0))


def saved_address(row: Mapping[str, Any]) -> SavedAddress:
    """An entry by its address as the book spells it."""
    address, coin = str(field(row, "address", "address book")), str(field(row, "coin", "address book"))
    return SavedAddress(
        name=address,
        network=str(field(row, "chain", "address book")),
        address=address,
        memo=text(row.get("tag")),
        usable=str(row.get("verified")) == "1" and str(row.get("status")) == "0",
        coin=None if coin == ANY_COIN else coin,
    )


def _place_in_transaction(row: Mapping[str, Any]) -> str:
    """Rows without an id: one transaction may carry several deposits."""
    parts = [text(row.get(name)) for name in ("txID", "txIndex", "toAddress")]
    if parts[0] is None:
        raise LookupFailed("MALFORMED", "deposit: neither an id nor a transaction")
    return ":".join(part or "" for part in parts)


def _created(value: Any) -> Any:
    """Seconds or milliseconds: the documents show both."""
    found = str(value)
    return moment(found if len(found) > 11 else f"{found}000") if found.isdigit() else None
