"""What a venue says that we own there, wallet by wallet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.venue import Call, CoinBalance
from qtg_dagster.lanes.cex.wallets import WalletPage, nothing_of, other_page, paying_pages


class VenueBalances:
    """Reads every wallet of an account: one reading for each asset of the inventory and wallet, zeros included."""

    def __init__(self, account: VenueAccount, clock: Clock) -> None:
        self._account = account
        self._clock = clock

    @property
    def venue_key(self) -> str:
        """The venue's inventory key."""
        return self._account.key

    @property
    def paying_wallet(self) -> str:
        """The wallet that withdrawals are paid from."""
        return self._account.venue.wallet

    async def fetch(self) -> tuple[BalanceReading, ...]:
        """All wallets, the paying one first. One that cannot be read has no readings, and the others' tell of it.

        Raises `LookupFailed` when the venue gives no well-formed answer for any.
        """
        venue = self._account.venue
        calls: dict[str, Call | None] = {venue.wallet: None, **venue.other_wallets()}
        found = await asyncio.gather(*(self._pages(*each) for each in calls.items()), return_exceptions=True)
        read: dict[str, Sequence[WalletPage]] = {}
        missing: dict[str, QtgError] = {}
        for wallet, pages in zip(calls, found, strict=True):
            if isinstance(pages, QtgError):
                missing[wallet] = pages
            elif isinstance(pages, BaseException):
                raise pages
            else:
                read[wallet] = pages
        if not read:
            raise next(iter(missing.values()))
        told = tuple(f"{wallet}: {redact_text(str(problem))}" for wallet, problem in missing.items())
        return tuple(
            self._reading(wallet, asset, pages, told)
            for wallet, pages in read.items()
            for asset in sorted(self._account.entry.assets)
        )

    async def _pages(self, wallet: str, call: Call | None) -> Sequence[WalletPage]:
        if call is not None:
            return [await other_page(self._account, wallet, call, self._clock)]
        return [page async for page in paying_pages(self._account, self._clock)]

    def _reading(
        self, wallet: str, asset: str, pages: Sequence[WalletPage], missing: tuple[str, ...]
    ) -> BalanceReading:
        """With the times of the page that lists the asset; what no page lists was read by all of them."""
        held, listed = _find(self._account.coin(asset), pages)
        return BalanceReading(
            venue_key=self._account.key,
            account=self._account.entry.account,
            wallet=wallet,
            asset=asset,
            free=plain_decimal(held.free),
            locked=plain_decimal(held.locked + held.withdrawing),
            request_started_at=listed[0].asked_at,
            request_ended_at=listed[-1].answered_at,
            source_time=listed[-1].venue_time,
            complete=not missing,
            missing=missing,
        )


def _find(coin: str, pages: Sequence[WalletPage]) -> tuple[CoinBalance, Sequence[WalletPage]]:
    for page in pages:
        for balance in page.balances:
            if balance.coin == coin:
                return balance, [page]
    return nothing_of(coin), pages
