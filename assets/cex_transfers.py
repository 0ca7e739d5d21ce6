"""Venues' records as an asset: one partition a venue and UTC day, so that a backfill reads what is missing."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import date

import dagster as dg

from assets.keys import CEX_TRANSFERS, GROUP
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.record_days import BACKFILL
from qtg_dagster.jobs.pictures import table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.settings import Settings
from qtg_dagster.treasury.record_ingest import DayOutcome, Order, RecordKeeper
from resources import PlatformResource

DAY, VENUE = "day", "venue"
#: A year of one venue is one run.
MOST_DAYS_A_RUN = 400
_NOBODY = "no_venue_in_the_inventory"

Outcomes = Sequence[tuple[str, DayOutcome]]


def record_partitions(settings: Settings) -> dg.MultiPartitionsDefinition:
    """Days that can be asked for, today among them, of every venue of the inventory."""
    days = dg.DailyPartitionsDefinition(
        start_date=settings.cex_transfer_ingest_since.isoformat(), timezone="UTC", end_offset=1
    )
    venues = dg.StaticPartitionsDefinition(sorted(settings.inventory.venues) or [_NOBODY])
    return dg.MultiPartitionsDefinition({DAY: days, VENUE: venues})


def cex_transfers_asset(settings: Settings) -> dg.AssetsDefinition:
    """The asset, for these settings' venues and first day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # of backfill policies
        return _asset(record_partitions(settings))


def _asset(partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key=CEX_TRANSFERS,
        group_name=GROUP,
        kinds={"postgres"},
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=MOST_DAYS_A_RUN),
        output_required=False,
        description="Withdrawals and deposits as each venue's record shows them, kept in qtg.cex_transfers. "
        "A day is materialised when it was read whole.",
    )
    def cex_transfers(
        context: dg.AssetExecutionContext, platform: PlatformResource
    ) -> Iterator[dg.AssetMaterialization]:
        wanted: dict[str, list[date]] = {}
        for key in context.partition_keys:
            named = _named(key)
            wanted.setdefault(named[VENUE], []).append(date.fromisoformat(named[DAY]))
        incomplete: list[tuple[str, DayOutcome]] = []
        with shown_in_the_ui():
            for outcomes in _in_step(lambda: _read(platform, wanted, context.run.run_id)):
                yield from (materialization(venue, day) for venue, day in outcomes if day.whole)
                incomplete += [(venue, day) for venue, day in outcomes if not day.whole]
        if incomplete:
            raise _failure(incomplete, len(context.partition_keys))

    return cex_transfers


async def _read(platform: PlatformResource, wanted: dict[str, list[date]], run_id: str) -> AsyncIterator[Outcomes]:
    async with platform.open() as parts:
        for venue, days in wanted.items():
            if venue not in parts.records:
                known = ", ".join(sorted(parts.records)) or "none"
                raise Conflict(f"{venue} is not in the inventory any more; it knows {known}")
            keeper = RecordKeeper(
                parts.database, parts.settings.network_class, parts.records[venue], parts.engine.clock
            )
            async for read in keeper.stretches(Order(days, BACKFILL, run_id)):
                yield [(venue, day) for day in read]


def _in_step(begin: Callable[[], AsyncIterator[Outcomes]]) -> Iterator[Outcomes]:
    """What an asynchronous reading gives, one by one: each is on record in Dagster before the next is begun.

    A run that dies half-way has then told of all days that it had committed.
    """
    with asyncio.Runner() as runner:
        reading = begin()

        async def step() -> Outcomes | None:
            return await anext(reading, None)

        try:
            while (outcomes := runner.run(step())) is not None:
                yield outcomes
        finally:
            runner.run(reading.aclose())  # type: ignore[attr-defined]


def materialization(venue: str, day: DayOutcome) -> dg.AssetMaterialization:
    """What the page of a partition shows."""
    return dg.AssetMaterialization(
        CEX_TRANSFERS,
        partition=dg.MultiPartitionKey({DAY: day.day.isoformat(), VENUE: venue}),
        metadata={
            "state": day.state.value,
            "transfers": day.transfers,
            "open": day.open_transfers,
            "new": day.new,
            "changed": day.changed,
            "unmatched": day.unmatched,
        },
    )


def _failure(incomplete: Outcomes, asked: int) -> dg.Failure:
    rows = [(venue, str(day.day), day.problem, day.transfers) for venue, day in incomplete]
    return dg.Failure(
        description=f"{len(incomplete)} of {asked} days are incomplete: {incomplete[0][1].problem}",
        metadata={"incomplete": dg.MetadataValue.md(table(("venue", "day", "why", "transfers read"), rows))},
        allow_retries=False,
    )


def _named(key: str) -> dict[str, str]:
    day, _, venue = key.partition("|")
    return {DAY: day, VENUE: venue}
