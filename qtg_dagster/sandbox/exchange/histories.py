"""The two histories as queries that no wire has a say in: filters, bounds in time, pages by offset or by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

Row = dict[str, Any]

_WITHDRAWALS = (
    "SELECT w.*, w.applied_ms AS at_ms, p.tx_hash, p.broadcast"
    " FROM withdrawals w LEFT JOIN payouts p ON p.withdrawal_id = w.id"
)
_TOLD = "id IN (SELECT withdrawal_id FROM told_withdrawals)"
_DEPOSITS = "SELECT *, inserted_ms AS at_ms FROM deposits"
_UNSENT = (WithdrawalStatus.EMAIL_SENT, WithdrawalStatus.AWAITING_APPROVAL)
_EARLIER_WITHDRAWAL = {
    WithdrawalStatus.COMPLETED: WithdrawalStatus.PROCESSING,
    WithdrawalStatus.PROCESSING: WithdrawalStatus.AWAITING_APPROVAL,
}
_EARLIER_DEPOSIT = {
    DepositStatus.SUCCESS: DepositStatus.PENDING,
    DepositStatus.CREDITED_LOCKED: DepositStatus.PENDING,
}


@dataclass(frozen=True, slots=True)
class Page:
    """What a history is asked for; None = any. Times are inclusive; newest rows first unless `oldest_first`."""

    limit: int
    offset: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    coin: str | None = None
    network: str | None = None
    status: int | None = None
    order_id: str | None = None
    tx_hash: str | None = None
    address: str | None = None
    ids: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None  # the ledger's own
    after: tuple[int, int] | None = None  # the time and number of the last row of the page before
    oldest_first: bool = False
    told: bool | None = None  # of withdrawals: whether the beneficiary was told under the travel rule


def withdrawals(ledger: Ledger, venue: str, page: Page, *, until_ms: int) -> list[Row]:
    """Withdrawals by the time they were asked for, none of them younger than `until_ms`."""
    return _rows(ledger, _WITHDRAWALS, venue, page, until_ms)


def deposits(ledger: Ledger, venue: str, page: Page, *, until_ms: int) -> list[Row]:
    """Deposits by the time they were first seen, none of them younger than `until_ms`."""
    return _rows(ledger, _DEPOSITS, venue, page, until_ms)


def _rows(ledger: Ledger, source: str, venue: str, page: Page, until_ms: int) -> list[Row]:
    tests: list[tuple[str, object]] = [
        ("venue = ?", venue),
        ("at_ms <= ?", until_ms),
        ("at_ms >= ?", page.start_ms),
        ("at_ms <= ?", page.end_ms),
        ("coin = ?", page.coin),
        ("network = ?", page.network),
        ("status = ?", page.status),
        ("order_id = ?", page.order_id),
        ("tx_hash = ?", page.tx_hash),
        ("lower(address) = ?", None if page.address is None else page.address.lower()),
    ]
    given = [(test, value) for test, value in tests if value is not None]
    where, values = [test for test, _ in given], [value for _, value in given]
    if page.ids is not None:
        where.append(f"id IN ({', '.join('?' * len(page.ids))})")
        values += page.ids
    if page.numbers is not None:
        where.append(f"seq IN ({', '.join('?' * len(page.numbers))})")
        values += page.numbers
    if page.told is not None:
        where.append(_TOLD if page.told else f"NOT {_TOLD}")
    if page.after is not None:
        where.append(f"(at_ms, seq) {'>' if page.oldest_first else '<'} (?, ?)")
        values += page.after
    way = "ASC" if page.oldest_first else "DESC"
    chosen = f"SELECT * FROM ({source}) WHERE {' AND '.join(where)}"  # noqa: S608 - every part is from this module
    sql = f"{chosen} ORDER BY at_ms {way}, seq {way} LIMIT ? OFFSET ?"
    return [dict(row) for row in ledger.rows(sql, (*values, page.limit, page.offset))]


def withdrawal_as_if(row: Row, status: int | None) -> Row:
    """The row as it would look in another status; None = one step back, as after a replica took over."""
    true = WithdrawalStatus(row["status"])
    shown = _EARLIER_WITHDRAWAL.get(true, true) if status is None else WithdrawalStatus(status)
    hidden = {"broadcast": 0, "completed_ms": None} if shown in _UNSENT else {}
    if shown is WithdrawalStatus.PROCESSING:
        hidden = {"completed_ms": None, "confirmations": 0}
    return row | {"status": shown.value} | hidden


def deposit_as_if(row: Row, status: int | None) -> Row:
    """The row as it would look in another status; None = one step back."""
    true = DepositStatus(row["status"])
    shown = _EARLIER_DEPOSIT.get(true, true) if status is None else DepositStatus(status)
    hidden = {"completed_ms": None, "confirmations": 0} if shown is DepositStatus.PENDING else {}
    return row | {"status": shown.value} | hidden


def position(rows: list[Row]) -> tuple[int, int]:
    """Where a page ended, for `Page.after`."""
    return rows[-1]["at_ms"], rows[-1]["seq"]
