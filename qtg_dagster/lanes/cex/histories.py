"""Reading a venue's record of withdrawals and deposits, every page of it. Raises `LookupFailed`, never guesses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.matching import transaction_hash
from qtg_dagster.lanes.cex.reply import LookupFailed, NoSuchRow
from qtg_dagster.lanes.cex.venue import Call, DepositRow, Identity, RowState, Venue, Window, WithdrawalRow

#: Clocks differ and rows are stamped a little off: windows are this much wider.
MARGIN = timedelta(minutes=10)
_MAX_PAGES = 50


async def withdrawals_by_client_id(
    account: VenueAccount, client_id: str, coin: str, submitted_at: datetime, now: datetime
) -> tuple[WithdrawalRow, ...]:
    """Rows with exactly this client id, from the window in which the request can have been taken.

    Asked only of venues whose rows show our id. An answer that tells of other withdrawals alone is no answer to that:
    ours may be on a page that nobody asked for.
    """
    venue, start = account.venue, submitted_at - MARGIN
    if venue.identity is not Identity.SEARCHABLE:
        rows = await withdrawals_between(account, coin, Window(start, now + MARGIN))
        return tuple(row for row in rows if row.client_id == client_id)
    window = Window(start, min(start + venue.client_id_window, now + MARGIN))
    found = await _asked(account, venue.withdrawal_by_client_id(client_id, window))
    ours = _unique(row for row in found if row.client_id == client_id)
    if found and not ours:
        raise LookupFailed("NOT_WHAT_WAS_ASKED", f"asked for our id, and told of {len(found)} others")
    return ours


async def withdrawals_by_ids(
    account: VenueAccount, withdrawal_ids: Sequence[str], coin: str, now: datetime
) -> tuple[WithdrawalRow, ...]:
    """Rows with exactly these ids, from the longest window the venue allows.

    Where a venue cannot be asked for ids, its record of the coin is read from the newest page on until all are found.
    """
    venue, wanted = account.venue, set(withdrawal_ids)
    end = now + MARGIN
    window = Window(end - venue.history_window, end)
    if venue.ids_per_lookup:
        found = await _asked(account, venue.withdrawals_by_ids(withdrawal_ids, coin, window))
        return _unique(row for row in found if row.withdrawal_id in wanted)
    rows: list[WithdrawalRow] = []
    async for page in _pages(account, coin, window):
        rows += [row for row in page if row.withdrawal_id in wanted]
        if {row.withdrawal_id for row in rows} == wanted:
            break
    return _unique(rows)


async def with_their_ends(
    account: VenueAccount, rows: tuple[WithdrawalRow, ...], now: datetime
) -> tuple[WithdrawalRow, ...]:
    """The same rows, those that are held as the venue tells of them by id, where that says more."""
    if not account.venue.ends_told_by_id:
        return rows
    told = []
    for row in rows:
        found = (row,) if row.state is not RowState.HELD else await _by_id(account, row, now)
        told += [replace(one, client_id=one.client_id or row.client_id) for one in found]
    return tuple(told)


async def _by_id(account: VenueAccount, row: WithdrawalRow, now: datetime) -> tuple[WithdrawalRow, ...]:
    found = await withdrawals_by_ids(account, [row.withdrawal_id], row.coin, now)
    if len(found) != 1:
        raise LookupFailed("NOT_TOLD_BY_ID", f"{row.withdrawal_id} is on record, and by its id there are {len(found)}")
    return found


async def withdrawals_by_transaction(
    account: VenueAccount, coin: str, chain: str, tx_hash: str, now: datetime
) -> tuple[WithdrawalRow, ...]:
    """Rows that were paid out by this transaction, from the longest window the venue allows, all pages."""
    end = now + MARGIN
    rows = await withdrawals_between(account, coin, Window(end - account.venue.history_window, end))
    return tuple(row for row in rows if transaction_hash(chain, row.tx_id) == tx_hash)


async def withdrawals_between(account: VenueAccount, coin: str, window: Window) -> tuple[WithdrawalRow, ...]:
    """Every withdrawal of a coin in a stretch of time, all pages, each row once."""
    rows: list[WithdrawalRow] = []
    for part in window.split(account.venue.history_window):
        async for page in _pages(account, coin, part):
            rows += [row for row in page if _is_within(account.venue, row.applied_at, part)]
    return _unique(row for row in rows if row.coin == coin)


async def deposits_since(account: VenueAccount, coin: str, start: datetime, now: datetime) -> tuple[DepositRow, ...]:
    """Every deposit of a coin since a time, all pages, each row once."""
    rows: dict[str, DepositRow] = {}
    for window in Window(start, now + MARGIN).split(account.venue.history_window):
        for row in await _deposits_within(account, coin, window):
            rows[row.deposit_id] = row
    return tuple(rows.values())


async def _asked(account: VenueAccount, calls: Call | tuple[Call, ...]) -> list[WithdrawalRow]:
    """The rows of all answers; one that fails fails them all, and one that says that there is no such row has none."""
    rows: list[WithdrawalRow] = []
    for call in (calls,) if isinstance(calls, Call) else calls:
        with suppress(NoSuchRow):
            rows += account.venue.read_withdrawals(await account.read(call))
    return rows


async def _pages(account: VenueAccount, coin: str, window: Window) -> AsyncIterator[tuple[WithdrawalRow, ...]]:
    venue, cursor = account.venue, None
    for _ in range(_MAX_PAGES):
        body = await account.read(venue.withdrawals(coin, window, cursor))
        page = venue.read_withdrawals(body)
        yield page
        cursor = venue.withdrawal_pages.following(body, [row.raw for row in page], cursor)
        if cursor is None or _is_past(venue, body, [row.applied_at for row in page], window):
            return
    raise LookupFailed("TOO_MANY_ROWS", f"more than {_MAX_PAGES} pages of {coin} withdrawals")


async def _deposits_within(account: VenueAccount, coin: str, window: Window) -> list[DepositRow]:
    venue, cursor = account.venue, None
    found: list[DepositRow] = []
    for _ in range(_MAX_PAGES):
        body = await account.read(venue.deposits(coin, window, cursor))
        page = venue.read_deposits(body)
        found += page
        cursor = venue.deposit_pages.following(body, [row.raw for row in page], cursor)
        if cursor is None or _is_past(venue, body, [row.inserted_at for row in page], window):
            return [row for row in found if _is_within(venue, row.inserted_at, window)]
    raise LookupFailed("TOO_MANY_ROWS", f"more than {_MAX_PAGES} pages of {coin} deposits")


def _is_past(venue: Venue, body: Any, moments: Sequence[datetime | None], window: Window) -> bool:
    """Whether a page from the newest on has nothing left of the window: a single row may stand out of order."""
    newest = venue.newest_on_page(body)
    if newest is not None:
        return venue.newest_first and newest < window.start
    return venue.newest_first and bool(moments) and all(at is not None and at < window.start for at in moments)


def _is_within(venue: Venue, at: datetime | None, window: Window) -> bool:
    """What the venue was asked for stays; where it takes no bounds, ours are kept, and a row without a time."""
    return not venue.newest_first or at is None or window.start <= at <= window.end


def _unique(rows: Iterable[WithdrawalRow]) -> tuple[WithdrawalRow, ...]:
    by_id: dict[str, WithdrawalRow] = {}
    for row in rows:
        by_id[row.withdrawal_id] = row
    twice = {row.other_id for row in by_id.values() if row.other_id is not None}
    return tuple(row for row in by_id.values() if row.withdrawal_id not in twice)
