"""What we own at every venue and on every chain."""

from collections.abc import Sequence

import dagster as dg

from assets.keys import BALANCES, GROUP
from assets.windows import serve
from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.jobs.pictures import table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.treasury.balances import VenueSnapshot, snapshot_balances, totals
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.workers import BALANCE_SNAPSHOT
from resources import PlatformResource

ANSWERED = "every_venue_answered"
_COLUMNS = ("venue", "account", "wallet", "asset", "free", "locked", "read (UTC)", "all wallets read")


@dg.asset(
    key=BALANCES,
    group_name=GROUP,
    kinds={"postgres"},
    description="Balances as each venue and chain reported them, appended to qtg.balance_snapshots.",
    check_specs=[dg.AssetCheckSpec(ANSWERED, asset=BALANCES, description="No venue or chain failed to answer.")],
)
async def balances(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Each scheduled window is read once; the newest is shown here, all are in the table."""
    newest: list[tuple[VenueSnapshot, ...]] = []
    with shown_in_the_ui():
        async with platform.open() as parts:

            async def read() -> PassResult:
                snapshots = await snapshot_balances(
                    parts.database, parts.settings.network_class, parts.balance_fetchers
                )
                newest[:] = [snapshots]
                failed = {one.venue_key: one.problem for one in snapshots if one.problem}
                return PassResult(sum(len(one.readings) for one in snapshots), {"failed": failed} if failed else {})

            served = await serve(
                context, parts.engine, BALANCE_SNAPSHOT, parts.settings.balance_snapshot_interval_seconds, read
            )
    return _result(newest[0] if newest else (), served)


def _result(snapshots: Sequence[VenueSnapshot], served: Sequence[str]) -> dg.MaterializeResult:  # type: ignore[type-arg]
    failed = {one.venue_key: one.problem for one in snapshots if one.problem}
    rows = [_reading_row(reading) for one in snapshots for reading in one.readings]
    sums = totals(snapshots)
    verdict = dg.AssetCheckResult(
        check_name=ANSWERED,
        passed=not failed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=dict(failed) or {"venues": len(snapshots)},
    )
    return dg.MaterializeResult(
        metadata={
            "windows": ", ".join(served) or "served by another run",
            "balances": dg.MetadataValue.md(table(_COLUMNS, rows)),
            "venues": dg.MetadataValue.md(table(("venue", "ms", "problem"), [_venue_row(one) for one in snapshots])),
            # For the plots over time; the exact amounts are in the table above and in the database.
            **{f"total {asset}": float(amount) for asset, amount in sums.items()},
        },
        check_results=[verdict],
    )


def _reading_row(reading: BalanceReading) -> tuple[object, ...]:
    """With the venue's own time where it tells one, else ours."""
    at = reading.source_time or reading.request_ended_at
    where = (reading.venue_key, reading.account, reading.wallet, reading.asset)
    return *where, reading.free, reading.locked, f"{at:%Y-%m-%d %H:%M:%S}", "yes" if reading.complete else "no"


def _venue_row(snapshot: VenueSnapshot) -> tuple[object, ...]:
    return snapshot.venue_key, round(snapshot.duration_ms), snapshot.problem


balance_snapshots = dg.define_asset_job(
    "balance_snapshots",
    selection=dg.AssetSelection.assets(BALANCES),
    executor_def=dg.in_process_executor,
    description="Read the balances of every venue and chain.",
)
