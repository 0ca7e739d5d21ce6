"""Balance snapshots: every venue and chain is asked, and one that fails spoils nobody else's."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.balances import BalanceFetcher, BalanceReading
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.patience import answer_within
from qtg_dagster.store.balances import append_balances
from qtg_dagster.store.database import Database

_ANSWER_SECONDS = 10.0
#: More than any sum of on-chain amounts has: nothing is rounded.
_DIGITS = 120


@dataclass(frozen=True, slots=True)
class VenueSnapshot:
    """What one venue or chain said, and why it said nothing of what is missing."""

    venue_key: str
    readings: tuple[BalanceReading, ...]
    duration_ms: float
    problem: str = ""


async def snapshot_balances(
    database: Database, network_class: str, fetchers: Sequence[BalanceFetcher]
) -> tuple[VenueSnapshot, ...]:
    """Read all venues at once and append what they say, in one transaction a venue."""
    return tuple(await asyncio.gather(*(_snapshot(database, network_class, fetcher) for fetcher in fetchers)))


async def _snapshot(database: Database, network_class: str, fetcher: BalanceFetcher) -> VenueSnapshot:
    started = time.monotonic()
    try:
        readings = await answer_within(_ANSWER_SECONDS, fetcher.fetch)
    except TimeoutError:
        return VenueSnapshot(fetcher.venue_key, (), _since(started), f"no answer within {_ANSWER_SECONDS:.0f} s, twice")
    except Exception as error:  # noqa: BLE001 - the venue's trouble, whatever it is, is shown and stays its own
        problem = redact_text(f"{type(error).__name__}: {error}")
        return VenueSnapshot(fetcher.venue_key, (), _since(started), problem)
    async with database.transaction() as transaction:
        await append_balances(transaction, network_class, readings)
    return VenueSnapshot(fetcher.venue_key, readings, _since(started), missing_wallets(readings))


def missing_wallets(readings: Sequence[BalanceReading]) -> str:
    """The wallets that could not be read beside those that could, and why; nothing when all were."""
    return "; ".join(dict.fromkeys(problem for reading in readings for problem in reading.missing))


def totals(snapshots: Sequence[VenueSnapshot]) -> dict[str, str]:
    """Asset -> all that was seen of it, free and locked, as plain decimal text. Each wallet counts once."""
    wallets = {
        (reading.venue_key, reading.account, reading.wallet, reading.asset): reading
        for snapshot in snapshots
        for reading in snapshot.readings
    }
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    with localcontext(prec=_DIGITS):
        for reading in wallets.values():
            sums[reading.asset] += Decimal(reading.free) + Decimal(reading.locked)
    return {asset: plain_decimal(amount) for asset, amount in sorted(sums.items())}


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000
