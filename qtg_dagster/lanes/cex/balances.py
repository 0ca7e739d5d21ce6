"""What a venue says that we own there."""

from __future__ import annotations

from decimal import Decimal

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.domain.clock import Clock
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.venue import CoinBalance


class VenueBalances:
    """Reads the wallet that withdrawals are paid from: one request, one moment, every asset of the inventory."""

    def __init__(self, account: VenueAccount, clock: Clock) -> None:
        self._account = account
        self._clock = clock

    @property
    def venue_key(self) -> str:
        """The venue's inventory key."""
        return self._account.key

    async def fetch(self) -> tuple[BalanceReading, ...]:
        """One reading an asset, zeros included; raises `LookupFailed` when the venue gives no well-formed answer."""
        account = self._account
        started = self._clock.now()
        body = await account.read(account.venue.balances())
        ended = self._clock.now()
        by_coin = {balance.coin: balance for balance in account.venue.read_balances(body)}
        readings = []
        for asset in sorted(account.entry.assets):
            coin = account.coin(asset)
            held = by_coin.get(coin, CoinBalance(coin, Decimal(0), Decimal(0), Decimal(0)))
            readings.append(
                BalanceReading(
                    venue_key=account.key,
                    account=account.entry.account,
                    wallet=account.venue.wallet,
                    asset=asset,
                    free=plain_decimal(held.free),
                    locked=plain_decimal(held.locked + held.withdrawing),
                    request_started_at=started,
                    request_ended_at=ended,
                )
            )
        return tuple(readings)
