"""One history request for many observers: a venue counts requests, not the ids in them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from qtg_dagster.domain.clock import Clock
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.histories import withdrawals_by_ids
from qtg_dagster.lanes.cex.venue import WithdrawalRow

GATHER_SECONDS = 0.02
_MOST_WHEN_READ_THROUGH = 1000


@dataclass(slots=True)
class _Batch:
    loop: asyncio.AbstractEventLoop
    coin: str  # empty where one look-up may ask for several coins
    ids: set[str] = field(default_factory=set)
    reading: asyncio.Task[tuple[WithdrawalRow, ...]] | None = None


class WithdrawalLookups:
    """Looks withdrawals of one account up by id; looks that come at about the same time share a request."""

    def __init__(self, account: VenueAccount, clock: Clock) -> None:
        self._account = account
        self._clock = clock
        self._open: dict[str, _Batch] = {}

    async def rows(self, withdrawal_id: str, coin: str) -> tuple[WithdrawalRow, ...]:
        """The rows with exactly this id; raises `LookupFailed` when the shared request brought nothing."""
        venue = self._account.venue
        batch = self._joinable(coin if venue.ids_of_one_coin or not venue.ids_per_lookup else "")
        batch.ids.add(withdrawal_id)
        if batch.reading is None:
            batch.reading = asyncio.create_task(self._read(batch))
            batch.reading.add_done_callback(_notice_failure)
        # One observer's cancellation is no reason for the others to go without an answer.
        found = await asyncio.shield(batch.reading)
        return tuple(row for row in found if row.withdrawal_id == withdrawal_id)

    def _joinable(self, coin: str) -> _Batch:
        loop = asyncio.get_running_loop()
        batch, most = self._open.get(coin), self._account.venue.ids_per_lookup or _MOST_WHEN_READ_THROUGH
        if batch is None or batch.loop is not loop or len(batch.ids) >= most:
            batch = self._open[coin] = _Batch(loop, coin)
        return batch

    async def _read(self, batch: _Batch) -> tuple[WithdrawalRow, ...]:
        await asyncio.sleep(GATHER_SECONDS)
        if self._open.get(batch.coin) is batch:
            del self._open[batch.coin]
        return await withdrawals_by_ids(self._account, sorted(batch.ids), batch.coin, self._clock.now())


def _notice_failure(reading: asyncio.Task[tuple[WithdrawalRow, ...]]) -> None:
    """Mark a failure as seen even when every observer that waited for it was cancelled."""
    if not reading.cancelled():
        reading.exception()
