"""A venue account's record of withdrawals and deposits, read whole, as the treasury keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from qtg_dagster.domain.cex_transfers import Facts, SeenTransfer, TransferKind, TransferStatus
from qtg_dagster.domain.record_days import longest_stretch
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.venue_record import RecordProblem, RecordReading
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.record_pages import TOO_FULL, History, PageReader
from qtg_dagster.lanes.cex.reply import LookupFailed
from qtg_dagster.lanes.cex.shown import shown, shown_address
from qtg_dagster.lanes.cex.venue import Call, DepositRow, Venue, Window, WithdrawalRow

#: Failures of the way there, or wishes for a pause: the same question may be answered a moment later.
_PASSING = frozenset({"NO_ANSWER", "PAUSED", "HTTP_418", "HTTP_429"})
_PAUSES = (1.0, 3.0, 10.0, 30.0)
_LONGEST_PAUSE = 120.0
#: What a shorter stretch may be free of.
_LOCAL = frozenset({"MALFORMED", "AMBIGUOUS", *TOO_FULL})
_MOST_DAYS = 30
_ALL_DAYS = 10_000

Pause = Callable[[float], Awaitable[None]]


class VenueRecord:
    """Reads one account. What the venue's answers lack is told as a problem; nothing is made up for it."""

    def __init__(self, account: VenueAccount, *, pause: Pause = asyncio.sleep) -> None:
        self._account = account
        self._pause = pause

    @property
    def venue_key(self) -> str:
        """The venue's inventory key."""
        return self._account.key

    @property
    def account(self) -> str:
        """The account's name at the venue."""
        return self._account.entry.account

    @property
    def days_at_once(self) -> int:
        """Where a record takes no times, all days that are wanted: each reading begins with its newest page."""
        venue = self._account.venue
        return _ALL_DAYS if venue.newest_first else longest_stretch(venue.history_window, _MOST_DAYS)

    async def read(self, start: datetime, end: datetime, known_coins: Collection[str]) -> RecordReading:
        """All transfers between two moments, of all coins; with a problem, those that were read before it."""
        superseded: set[str] = set()
        readers = [PageReader(history, self._ask) for history in self._histories(superseded)]
        problem: RecordProblem | None = None
        try:
            coins = await self._coins(known_coins)
            for window in self._windows(start, end):
                for reader in readers:
                    for coin in coins:
                        await reader.read(coin, window)
        except LookupFailed as failed:
            message = redact_text(str(failed).removeprefix(f"{failed.code}: "))
            problem = RecordProblem(failed.code, message, local=failed.code in _LOCAL)
        withdrawals, deposits = (reader.found for reader in readers)
        kept = [row for key, row in withdrawals.items() if key not in superseded]
        return RecordReading((*kept, *deposits.values()), problem)

    def _windows(self, start: datetime, end: datetime) -> tuple[Window, ...]:
        venue, whole = self._account.venue, Window(start, end)
        return (whole,) if venue.newest_first else whole.split(venue.history_window)

    def _histories(self, superseded: set[str]) -> tuple[History, History]:
        """Both records. `superseded` collects ids under which a withdrawal stands on a lesser record as well."""
        venue = self._account.venue

        def withdrawal(row: WithdrawalRow) -> SeenTransfer:
            if row.other_id is not None:
                superseded.add(row.other_id)
            return self._withdrawal(row)

        withdrawn = History(
            *("withdrawals", venue.withdrawals, venue.read_withdrawals, venue.withdrawal_pages, withdrawal),
            unbounded=venue.newest_first,
            newest=venue.newest_on_page,
        )
        deposited = History(
            *("deposits", venue.deposits, venue.read_deposits, venue.deposit_pages, self._deposit),
            unbounded=venue.newest_first,
            newest=venue.newest_on_page,
        )
        return withdrawn, deposited

    async def _ask(self, call: Call) -> Any:
        """The JSON of an answer; what passes is waited for, as long as the venue wishes."""
        for pause in _PAUSES:
            try:
                return await self._account.read(call)
            except LookupFailed as failed:
                wait = failed.retry_after_seconds or pause
                if not _passes(failed.code) or wait > _LONGEST_PAUSE:
                    raise
                await self._pause(wait)
        return await self._account.read(call)

    async def _coins(self, known_coins: Collection[str]) -> Sequence[str | None]:
        """None stands for all at once."""
        venue = self._account.venue
        if venue.histories_of_all_coins:
            return [None]
        named = {self._account.coin(asset) for asset in self._account.entry.assets}
        return sorted(named | await self._held_coins() | {venue.coin_code(coin) for coin in known_coins})

    async def _held_coins(self) -> set[str]:
        venue, cursor = self._account.venue, None
        held: set[str] = set()
        while True:
            body = await self._ask(venue.balances(cursor))
            balances = venue.read_balances(body)
            held |= {balance.coin for balance in balances}
            if venue.balance_pages is not None:
                cursor = venue.balance_pages.following(body, [{} for _ in balances], cursor)
            if cursor is None:
                break
        for wallet, call in venue.other_wallets().items():
            held |= {balance.coin for balance in venue.read_other_wallet(wallet, await self._ask(call))}
        return held

    def _withdrawal(self, row: WithdrawalRow) -> SeenTransfer:
        return SeenTransfer(
            kind=TransferKind.WITHDRAWAL,
            row_key=row.withdrawal_id,
            client_id=row.client_id,
            internal=row.internal,
            occurred_at=_time_of(row.applied_at, row.withdrawal_id),
            facts=_facts(self._account.venue, row),
            **_shared(row),
        )

    def _deposit(self, row: DepositRow) -> SeenTransfer:
        return SeenTransfer(
            kind=TransferKind.DEPOSIT,
            row_key=row.deposit_id,
            client_id=None,
            internal=False,
            occurred_at=_time_of(row.inserted_at, row.deposit_id),
            facts=_facts(self._account.venue, row),
            **_shared(row),
        )


def _passes(code: str) -> bool:
    return code in _PASSING or code.startswith("HTTP_5")


def _time_of(moment: datetime | None, key: str) -> datetime:
    if moment is None:
        raise LookupFailed("MALFORMED", f"the row {key} has no time, so nobody can say which day it is of")
    return moment


def _shared(row: WithdrawalRow | DepositRow) -> dict[str, Any]:
    return {
        "coin": row.coin,
        "network": row.network,
        "address": shown_address(row.address),
        "memo": row.memo,
        "status_listed": row.status_listed,
        "raw": shown(row.raw),
    }


def _facts(venue: Venue, row: WithdrawalRow | DepositRow) -> Facts:
    shown = (row.raw.get(name) for name in venue.confirmations)
    confirmations = next((str(each) for each in shown if each not in (None, "")), None)
    return Facts(
        status=TransferStatus(row.state.value),
        raw_status=row.raw_status,
        tx_id=row.tx_id,
        amount=row.amount,
        fee=row.fee if isinstance(row, WithdrawalRow) else Decimal(0),
        confirmations=confirmations,
    )
