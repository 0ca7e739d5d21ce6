"""Reading a venue's record of withdrawals and deposits, every page of it. Raises `LookupFailed`, never guesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.matching import transaction_hash
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.venue import DepositRow, Window, WithdrawalRow

#: Clocks differ and rows are stamped a little off: windows are this much wider.
MARGIN = timedelta(minutes=10)
_MAX_PAGES = 50


async def withdrawals_by_client_id(
    account: VenueAccount, client_id: str, submitted_at: datetime, now: datetime
) -> tuple[WithdrawalRow, ...]:
    """Rows with exactly this client id, from the window in which the request can have been taken."""
    start = submitted_at - MARGIN
    window = Window(start, min(start + account.venue.client_id_window, now + MARGIN))
    rows = account.venue.read_withdrawals(await account.read(account.venue.withdrawal_by_client_id(client_id, window)))
    return _unique(row for row in rows if row.client_id == client_id)


async def withdrawals_by_ids(
    account: VenueAccount, withdrawal_ids: Sequence[str], now: datetime
) -> tuple[WithdrawalRow, ...]:
    """Rows with exactly these ids, from the longest window the venue allows."""
    end = now + MARGIN
    window = Window(end - account.venue.history_window, end)
    body = await account.read(account.venue.withdrawals_by_ids(withdrawal_ids, window))
    rows = account.venue.read_withdrawals(body)
    return _unique(row for row in rows if row.withdrawal_id in withdrawal_ids)


async def withdrawals_by_transaction(
    account: VenueAccount, coin: str, chain: str, tx_hash: str, now: datetime
) -> tuple[WithdrawalRow, ...]:
    """Rows that were paid out by this transaction, from the longest window the venue allows, all pages."""
    end = now + MARGIN
    window = Window(end - account.venue.history_window, end)
    found: list[WithdrawalRow] = []
    for page_number in range(_MAX_PAGES):
        call = account.venue.withdrawals(coin, window, page_number * account.venue.page_size)
        page = account.venue.read_withdrawals(await account.read(call))
        found += [row for row in page if transaction_hash(chain, row.tx_id) == tx_hash]
        if len(page) < account.venue.page_size:
            return _unique(found)
    raise LookupFailed("TOO_MANY_ROWS", f"more than {_MAX_PAGES} pages of {coin} withdrawals")


async def deposits_since(account: VenueAccount, coin: str, start: datetime, now: datetime) -> tuple[DepositRow, ...]:
    """Every deposit of a coin since a time, all pages, each row once."""
    rows: dict[str, DepositRow] = {}
    for window in Window(start, now + MARGIN).split(account.venue.history_window):
        for row in await _deposits_within(account, coin, window):
            rows[row.deposit_id] = row
    return tuple(rows.values())


async def _deposits_within(account: VenueAccount, coin: str, window: Window) -> list[DepositRow]:
    found: list[DepositRow] = []
    for page_number in range(_MAX_PAGES):
        call = account.venue.deposits(coin, window, page_number * account.venue.page_size)
        page = account.venue.read_deposits(await account.read(call))
        found += page
        if len(page) < account.venue.page_size:
            return found
    raise LookupFailed("TOO_MANY_ROWS", f"more than {_MAX_PAGES} pages of {coin} deposits")


def _unique(rows: Iterable[WithdrawalRow]) -> tuple[WithdrawalRow, ...]:
    by_id: dict[str, WithdrawalRow] = {}
    for row in rows:
        by_id[row.withdrawal_id] = row
    return tuple(by_id.values())
