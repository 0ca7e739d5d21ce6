"""Deletion of what has settled, as an asset: what went, what remains and what stands in the way."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.checks import Finding
from assets.keys import GROUP, RETENTION
from assets.windows import serve
from qtg_dagster.domain.retention import KindReport, Standing, overall
from qtg_dagster.jobs.pictures import table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.retention import Held, held_movements
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.retention import COUNTED, open_places, overdue, retain
from qtg_dagster.upkeep.workers import RETENTION as WORKER
from resources import DatabaseResource, PlatformResource, SettingsResource

KEEPS_UP = "retention_keeps_up"
#: What a daily pass cannot have reached yet.
_SLACK = timedelta(days=1)
_HEAD = ("what", "kept", "standing", "deleted", "remaining", "held", "failed", "seconds", "oldest past its window")


@dg.asset(
    key=RETENTION,
    group_name=GROUP,
    kinds={"postgres"},
    description="Deletes what has settled and is past its window, from QTG's tables and from Dagster's own.",
)
async def retention(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Each scheduled window is served once; the table says what came of it."""
    reports: list[KindReport] = []
    held = Held(0)
    with shown_in_the_ui():
        async with platform.open() as parts:

            async def delete() -> PassResult:
                nonlocal held
                url = dagster_storage_url(context.instance)
                async with open_places(parts.settings, parts.database, url, log_remover(context.instance)) as places:
                    reports[:] = await retain(parts.settings, places)
                kept = next((each.window for each in reports if each.held and each.window), None)
                if kept is not None:
                    async with parts.database.transaction() as transaction:
                        held = await held_movements(transaction, kept, COUNTED)
                notes = {each.kind.value: each.note() for each in reports}
                return PassResult(sum(each.deleted for each in reports), notes)

            interval = parts.settings.retention_interval_seconds
            served = await serve(context, parts.engine, WORKER, interval, delete)
    return dg.MaterializeResult(metadata=_shown(reports, held, served))


def _shown(reports: Sequence[KindReport], held: Held, served: Sequence[str]) -> dict[str, Any]:
    rows = {name: count for each in reports for name, count in sorted(each.rows.items())}
    problems = {each.kind.value: each.problem for each in reports if each.problem}
    return {
        "windows": ", ".join(served) or "served by another run",
        "standing": overall(reports).value,
        "deleted": sum(each.deleted for each in reports),
        "remaining": sum(each.remaining for each in reports),
        "failed": sum(each.failed for each in reports),
        "duration s": round(sum(each.seconds for each in reports), 2),
        "passes": dg.MetadataValue.md(table(_HEAD, [report_row(each) for each in reports])),
        "rows": dg.MetadataValue.md(table(("table", "rows deleted"), rows.items())),
        "held": dg.MetadataValue.json({why: f"{count}, one is {one}" for why, (count, one) in held.reasons.items()}),
        "problems": dg.MetadataValue.json(problems),
    }


def report_row(report: KindReport) -> tuple[object, ...]:
    """A kind's line in the table; counts of what remains end at `COUNTED`."""
    kept = "for good" if report.window is None else f"{report.window.days} d"
    remaining = f"{report.remaining}{'+' if report.remaining >= COUNTED else ''}"
    oldest = f"{report.oldest:%Y-%m-%d %H:%M}" if report.oldest else ""
    said = (report.standing.value, report.deleted, remaining, report.held, report.failed)
    return (report.kind.value, kept, *said, round(report.seconds, 2), oldest)


def dagster_storage_url(instance: dg.DagsterInstance) -> str | None:
    """Where this instance keeps its runs, if that is PostgreSQL."""
    return getattr(instance.run_storage, "postgres_url", None)


def log_remover(instance: dg.DagsterInstance) -> Callable[[Sequence[str]], None]:
    """Deletes what runs printed."""

    def forget(run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            instance.compute_log_manager.delete_logs(prefix=[run_id])

    return forget


async def find_backlog(database: Database, settings: Settings) -> Finding:
    """Is anything left that a pass should have deleted a day ago?"""
    late = await overdue(database, settings, _SLACK)
    told = {
        kind.value: f"{count}{'+' if count >= COUNTED else ''} could have gone a day ago"
        for kind, count in late.items()
    }
    quiet = {"standing": Standing.CAUGHT_UP.value}
    return Finding(RETENTION, KEEPS_UP, not late, dg.AssetCheckSeverity.WARN, told or quiet)


@dg.asset_check(
    asset=RETENTION, name=KEEPS_UP, description="Nothing that could go is a day past its window: no backlog stalls."
)
def retention_keeps_up(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_backlog(opened, now)).result()


retain_job = dg.define_asset_job(
    "retain",
    selection=dg.AssetSelection.assets(RETENTION),
    executor_def=dg.in_process_executor,
    description="Delete what has settled and is past its window.",
)
