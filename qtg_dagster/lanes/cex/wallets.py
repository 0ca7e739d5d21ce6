"""Reading a venue's wallets, every page of them. Raises `LookupFailed`, never guesses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.reply import LookupFailed, NoSuchWallet
from qtg_dagster.lanes.cex.venue import Call, CoinBalance

_MAX_PAGES = 50


@dataclass(frozen=True, slots=True)
class WalletPage:
    """The balances of one answer, with when it was asked for and answered, by our clock and by the venue's."""

    balances: tuple[CoinBalance, ...]
    asked_at: datetime
    answered_at: datetime
    venue_time: datetime | None


async def paying_pages(account: VenueAccount, clock: Clock | None = None) -> AsyncIterator[WalletPage]:
    """The wallet that withdrawals are paid from, page after page; ends after the last."""
    venue, cursor = account.venue, None
    for _ in range(_MAX_PAGES):
        call = venue.balances() if cursor is None else venue.balances(cursor)
        page, body = await _read(account, call, venue.wallet, clock or SystemClock())
        yield page
        rows = [{"coin": balance.coin} for balance in page.balances]
        cursor = None if venue.balance_pages is None else venue.balance_pages.following(body, rows, cursor)
        if cursor is None:
            return
    raise LookupFailed("TOO_MANY_ROWS", f"more than {_MAX_PAGES} pages of balances")


async def other_page(account: VenueAccount, wallet: str, call: Call, clock: Clock) -> WalletPage:
    """A wallet that withdrawals are not paid from; an empty one where the customer never opened it."""
    asked_at = clock.now()
    try:
        return (await _read(account, call, wallet, clock))[0]
    except NoSuchWallet as told:
        return WalletPage((), asked_at, clock.now(), told.date)


async def wallet_balance(account: VenueAccount, coin: str) -> CoinBalance:
    """The coin in the wallet that withdrawals are paid from; zero when no page of it lists the coin."""
    async for page in paying_pages(account):
        for balance in page.balances:
            if balance.coin == coin:
                return balance
    return nothing_of(coin)


def nothing_of(coin: str) -> CoinBalance:
    return CoinBalance(coin, Decimal(0), Decimal(0), Decimal(0))


async def _read(account: VenueAccount, call: Call, wallet: str, clock: Clock) -> tuple[WalletPage, object]:
    venue = account.venue
    asked_at = clock.now()
    answer = await account.answer(call)
    answered_at = clock.now()
    read = venue.read_balances if wallet == venue.wallet else lambda body: venue.read_other_wallet(wallet, body)
    told_at = venue.read_answer_time(answer.body) or answer.date
    return WalletPage(read(answer.body), asked_at, answered_at, told_at), answer.body
