"""One pass of deletion: kind after kind, batch after batch, with pauses that leave the database to live work.

A kind that fails is told and stops no other. Each batch is a transaction of its own, so a pass may be killed anywhere:
the next one goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog

from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.retention import DAGSTERS, OURS, Kind, KindReport, windows
from qtg_dagster.settings import Settings
from qtg_dagster.store.dagster_retention import ENDED, DagsterTables, Newest
from qtg_dagster.store.database import Database
from qtg_dagster.store.retention import BEGINNING, Deletions, movements_after, open_deletions, settled_rows
from qtg_dagster.store.sessions import DATABASE_ERRORS

log = structlog.get_logger("qtg.upkeep")

#: How many that remain are counted at most.
COUNTED = 10_000
_TREES, _ROWS = 50, 500
_LARGEST_TREES, _LARGEST_ROWS = 200, 2000
#: What a batch should take: short beside what a live statement may wait for.
_LONG_SECONDS, _SHORT_SECONDS = 0.1, 0.03

#: Forgets what the runs with these ids printed; called before their rows go, so that a crash leaves no file behind.
ForgetLogs = Callable[[Sequence[str]], None]


class Pace:
    """How large a batch is, how long the pause after it, and when to stop."""

    def __init__(self, load: float, ends_at: float, size: int, largest: int) -> None:
        self._load = load
        self._ends_at = ends_at
        self._largest = largest
        self.size = size

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._ends_at

    async def pause(self, took: float) -> None:
        """Leave the database alone for its share of the time, and make the next batch as long as it should be."""
        if took > _LONG_SECONDS:
            self.size = max(1, self.size // 2)
        elif took < _SHORT_SECONDS:
            self.size = min(self._largest, self.size * 2)
        await asyncio.sleep(took * (1 / self._load - 1))


@dataclass(frozen=True, slots=True)
class Places:
    """Where a pass reads and deletes; of Dagster's tables None where its storage is not on PostgreSQL."""

    reading: Database
    deletions: Deletions
    dagster: DagsterTables | None = None
    forget_logs: ForgetLogs = lambda _: None


@asynccontextmanager
async def open_places(
    settings: Settings, reading: Database, dagster_url: str | None, forget_logs: ForgetLogs
) -> AsyncIterator[Places]:
    """The places of a pass, each under its own role."""
    ours = open_deletions(settings.retention_database_url or settings.database_url)
    theirs = open_deletions(dagster_url) if dagster_url else None
    try:
        tables = DagsterTables(theirs) if theirs is not None else None
        yield Places(reading, Deletions(ours), tables, forget_logs)
    finally:
        await ours.close()
        if theirs is not None:
            await theirs.close()


async def retain(settings: Settings, places: Places) -> list[KindReport]:
    """Delete what has settled and is past its window, until all is gone or the time is over."""
    ends_at = time.monotonic() + settings.retention_budget_seconds
    found = windows(settings.retention_days, settings.retention_windows)
    reports: list[KindReport] = []
    for place, kind in enumerate(Kind):
        report = KindReport(kind, found[kind])
        reports.append(report)
        if report.window is None:
            continue
        # What is left of the time is shared by what is left to do: a backlog of one kind starves no other.
        share = (ends_at - time.monotonic()) / (len(Kind) - place)
        began = time.monotonic()
        try:
            # Dagster's storage may be elsewhere, and away: that is told of its kinds and stops none of ours.
            newest = await _newest(places) if kind.of_dagster else None
            report.absent = kind.of_dagster and newest is None
            await _retain_kind(settings, places, report, report.window, newest, began + share)
        except DATABASE_ERRORS as error:
            report.failed += 1
            report.problem = redact_text(f"{type(error).__name__}: {error}")
            log.warning("deletion failed", kind=kind.value, error=report.problem)
        report.seconds = time.monotonic() - began
    return reports


async def survey(settings: Settings, places: Places) -> list[KindReport]:
    """What a pass would find, with nothing deleted."""
    found = windows(settings.retention_days, settings.retention_windows)
    newest = await _newest(places)
    reports = [KindReport(kind, found[kind]) for kind in Kind]
    for report in reports:
        if report.window is not None and report.kind in OURS:
            await _count(places, report, report.window)
        elif report.window is not None and report.kind in DAGSTERS:
            report.absent = newest is None
            if newest is not None and places.dagster is not None and report.kind is Kind.DAGSTER_RUNS:
                for status in ENDED:
                    old = await places.dagster.old_runs(status, report.window, newest, COUNTED)
                    report.remaining += len(old)
                _, report.oldest = await places.dagster.oldest_run(report.window)
    return reports


async def overdue(database: Database, settings: Settings, slack: timedelta) -> dict[Kind, int]:
    """How many of our rows could go and are that much past their window: what a pass should not have left."""
    found = windows(settings.retention_days, settings.retention_windows)
    late: dict[Kind, int] = {}
    async with database.transaction() as transaction:
        for kind in OURS:
            window = found[kind]
            if window is not None:
                late[kind] = (await settled_rows(transaction, kind, window + slack, COUNTED)).count
    return {kind: count for kind, count in late.items() if count}


async def _newest(places: Places) -> Newest | None:
    if places.dagster is None or not await places.dagster.present():
        return None
    return await places.dagster.newest()


async def _count(places: Places, report: KindReport, window: timedelta) -> None:
    async with places.reading.transaction() as transaction:
        past = await settled_rows(transaction, report.kind, window, COUNTED)
    report.remaining, report.oldest = past.count, past.oldest


async def _retain_kind(
    settings: Settings, places: Places, report: KindReport, window: timedelta, newest: Newest | None, ends_at: float
) -> None:
    trees = report.kind in (Kind.MOVEMENTS, Kind.DAGSTER_RUNS)
    pace = Pace(settings.retention_load, ends_at, *((_TREES, _LARGEST_TREES) if trees else (_ROWS, _LARGEST_ROWS)))
    if report.kind is Kind.MOVEMENTS:
        await _movements(places, report, window, pace)
    elif not report.kind.of_dagster:
        await _rows(places, report, window, pace)
    elif places.dagster is not None and newest is not None:
        if report.kind is Kind.DAGSTER_RUNS:
            await _runs(places, places.dagster, report, window, newest, pace)
        else:
            await _walk(places.dagster, report, window, newest, pace)


async def _timed(work: Awaitable[int]) -> tuple[int, float]:
    began = time.monotonic()
    return await work, time.monotonic() - began


async def _rows(places: Places, report: KindReport, window: timedelta, pace: Pace) -> None:
    while not pace.over:
        asked = pace.size
        gone, took = await _timed(places.deletions.rows(report.kind, window, asked))
        report.deleted += gone
        if gone < asked:
            break
        await pace.pause(took)
    await _count(places, report, window)


async def _movements(places: Places, report: KindReport, window: timedelta, pace: Pace) -> None:
    after, alone_until = BEGINNING, BEGINNING
    while not pace.over:
        # One that cannot be deleted takes its batch with it: that batch is gone through again one by one.
        asked = 1 if after < alone_until else pace.size
        began = time.monotonic()
        batch = await places.deletions.movements(window, after, asked)
        if batch.failed and asked > 1:
            alone_until = batch.last
            continue
        if batch.failed:
            report.problem = redact_text(f"movement {batch.last[1]}: {batch.problem}")
            log.warning("movement not deleted", problem=report.problem)
        after = batch.last
        report.deleted += batch.deleted
        report.held += batch.held
        report.locked += batch.locked
        report.failed += batch.failed
        for table, count in batch.counts.items():
            report.rows[table] = report.rows.get(table, 0) + count
        if batch.examined < asked:
            break
        await pace.pause(time.monotonic() - began)
    async with places.reading.transaction() as transaction:
        left = await movements_after(transaction, window, after, COUNTED)
        report.oldest = (await settled_rows(transaction, Kind.MOVEMENTS, window, COUNTED)).oldest
    report.remaining = left + report.locked + report.failed


async def _runs(
    places: Places, tables: DagsterTables, report: KindReport, window: timedelta, newest: Newest, pace: Pace
) -> None:
    for status in ENDED:
        while True:
            asked = pace.size
            runs = await tables.old_runs(status, window, newest, asked)
            if not runs:
                break
            if pace.over:
                report.remaining += len(await tables.old_runs(status, window, newest, COUNTED))
                break
            await asyncio.to_thread(places.forget_logs, runs)
            began = time.monotonic()
            counts = await tables.delete_runs(runs, status, window, newest)
            report.deleted += counts["runs"]
            for table, count in counts.items():
                report.rows[table] = report.rows.get(table, 0) + count
            if counts["runs"] < len(runs):  # somebody works on one of them, which the next look would find again
                report.locked += len(runs) - counts["runs"]
                report.remaining += len(await tables.old_runs(status, window, newest, COUNTED))
                break
            await pace.pause(time.monotonic() - began)
    _, report.oldest = await tables.oldest_run(window)


async def _walk(tables: DagsterTables, report: KindReport, window: timedelta, newest: Newest, pace: Pace) -> None:
    after = 0
    while True:
        if pace.over:
            report.remaining = 1  # at least: the walk was not at its end
            break
        began = time.monotonic()
        step = await tables.walk(report.kind, window, newest, after, pace.size)
        report.deleted += step.deleted
        after = step.last
        if not step.more:
            break
        await pace.pause(time.monotonic() - began)
