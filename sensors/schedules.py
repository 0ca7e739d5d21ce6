"""Schedules: executors' health, balances, deletion, the audit chain, reapers, transfers' follow-up, venues' records."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.audit import verify_audit_chain
from assets.balances import balance_snapshots
from assets.executors import executor_health
from assets.keys import WINDOW_TAG
from assets.retention import retain_job
from qtg_dagster.domain.cex_transfers import CEX_TRANSFER_INGEST
from qtg_dagster.jobs.capital_transfers import follow_up_capital_transfers
from qtg_dagster.jobs.cex_transfers import ingest_cex_transfers
from qtg_dagster.jobs.upkeep import reap_ccip_stranded, reap_evm_nonces
from qtg_dagster.settings import Settings
from qtg_dagster.store.core_group import FailedRun
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.treasury.record_rounds import count_due_readings
from qtg_dagster.treasury.transfer_followup import count_due
from qtg_dagster.upkeep.audit_verification import AUDIT_VERIFICATION
from qtg_dagster.upkeep.ccip_reaper import count_old_sends
from qtg_dagster.upkeep.core_group import look_after_core
from qtg_dagster.upkeep.cycles import backing_off, cron_of, cycle_key
from qtg_dagster.upkeep.nonce_reaper import count_due_nonces
from qtg_dagster.upkeep.workers import (
    BALANCE_SNAPSHOT,
    CAPITAL_FOLLOWUP,
    CCIP_REAPER,
    EXECUTOR_HEALTH,
    NONCE_REAPER,
    RETENTION,
)
from resources import DatabaseResource, SettingsResource
from sensors.failures import failed_outside, mark_noticed
from sensors.switches import Switch, evm_switch, record_switch, worker_switch


def schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    """All schedules, at the cadences of the settings."""
    health = _schedule(
        executor_health,
        EXECUTOR_HEALTH,
        settings.executor_health_interval_seconds,
        worker_switch(settings).schedule_status,
        worker_switch(settings).explain("Asks every executor and signer whether it can be reached."),
    )
    balances_switch = worker_switch(settings, "balance_snapshot_enabled")
    balances = _schedule(
        balance_snapshots,
        BALANCE_SNAPSHOT,
        settings.balance_snapshot_interval_seconds,
        balances_switch.schedule_status,
        balances_switch.explain("Reads the balances of every venue and chain."),
    )
    deletion = _schedule(
        retain_job,
        RETENTION,
        settings.retention_interval_seconds,
        worker_switch(settings).schedule_status,
        worker_switch(settings).explain("Deletes what has settled and is past its window."),
    )
    verification = _schedule(
        verify_audit_chain,
        AUDIT_VERIFICATION,
        settings.audit_verification_interval_seconds,
        worker_switch(settings).schedule_status,
        worker_switch(settings).explain("Verifies the audit chain, and signs its head where a key is set."),
    )
    return [health, balances, deletion, verification, *(_when_due(settings, watched) for watched in _WATCHED)]


def request_of(scheduled: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """The run that serves the windows of a tick; the same tick never starts two."""
    at = cycle_key(scheduled.scheduled_execution_time)
    return dg.RunRequest(run_key=at, tags={WINDOW_TAG: f"{scheduled.scheduled_execution_time:%Y-%m-%dT%H:%MZ}"})


def _schedule(
    job: Any, worker: str, interval_seconds: int, status: dg.DefaultScheduleStatus, description: str
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=cron_of(interval_seconds),
        execution_timezone="UTC",
        default_status=status,
        description=description,
    )
    def every(
        context: dg.ScheduleEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.RunRequest | dg.SkipReason:
        now = settings.read()
        lost = failed_outside(context.instance, job.name, worker)

        async def look(opened: Database) -> str:
            await _show_lost(opened, now, worker, lost)
            return await _pause(opened, now, worker, interval_seconds)

        pause = database.read(look)
        mark_noticed(context.instance, lost)
        return dg.SkipReason(pause) if pause else request_of(context)

    return every


async def _show_lost(opened: Database, now: Settings, worker: str, lost: Sequence[FailedRun]) -> None:
    """A sidecar's failed run is contained: it shows in the worker's own heartbeat, and the others go on."""
    for run in lost:
        await Heartbeats(opened).beat(now.network_class, worker, duration_ms=0, items=0, error=RuntimeError(run.detail))


async def _pause(opened: Database, now: Settings, worker: str, interval_seconds: int) -> str:
    """Why no run is started yet; a run serves the windows of its minute, and is worth it when the pause ends within."""
    return await backing_off(opened, now.network_class, worker, ahead_seconds=60 - min(interval_seconds, 60))


@dataclass(frozen=True, slots=True)
class Watched:
    """A worker whose run is started only when there is something to do for it."""

    job: dg.JobDefinition
    worker: str
    description: str
    due: Callable[[Database, Settings], Awaitable[int]]
    nothing: Callable[[Settings], str]  # why no run is started when nothing is due
    switch: Callable[[Settings, str], Switch] = worker_switch  # asked with the name of the worker's own flag
    core: bool = False  # it falls with the core group


async def _due_nonces(opened: Database, now: Settings) -> int:
    return sum(await count_due_nonces(opened, now))


_WATCHED = (
    Watched(
        reap_evm_nonces,
        NONCE_REAPER,
        "Gives back nonces that were never signed, and looks after those that nobody will use.",
        _due_nonces,
        lambda now: (
            f"no reservation is older than {now.evm_nonce_reservation_max_age_seconds} s, "
            "and no signed nonce waits for a look"
        ),
        switch=evm_switch,
        core=True,
    ),
    Watched(
        reap_ccip_stranded,
        CCIP_REAPER,
        "Finds CCIP sends without a known end: closes what is proven, shows people the rest.",
        lambda opened, now: count_old_sends(opened, now.network_class, now.ccip_send_intent_max_age_seconds),
        lambda now: f"no CCIP send is older than {now.ccip_send_intent_max_age_seconds} s without being accounted for",
        core=True,
    ),
    Watched(
        follow_up_capital_transfers,
        CAPITAL_FOLLOWUP,
        "Settles capital transfers with their movements, begins what waits, and shows people what does not go on.",
        count_due,
        lambda _: "no capital transfer has anything new to it",
    ),
    Watched(
        ingest_cex_transfers,
        CEX_TRANSFER_INGEST,
        "Reads venues' records again: the last days often, older ones seldom, and what has not ended until it has.",
        count_due_readings,
        lambda now: f"no record is due to be read again, of {', '.join(now.recorded_venues)}",
        switch=lambda settings, _: record_switch(settings),
    ),
)


def _when_due(settings: Settings, watched: Watched) -> dg.ScheduleDefinition:
    """A schedule that asks the database first; that nothing is due is a pass too, and a sign of life."""
    job, worker = watched.job, watched.worker
    interval_seconds = int(getattr(settings, f"{worker}_interval_seconds"))
    switch = watched.switch(settings, f"{worker}_enabled")

    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=cron_of(interval_seconds),
        execution_timezone="UTC",
        default_status=switch.schedule_status,
        description=switch.explain(watched.description),
    )
    def when_due(
        context: dg.ScheduleEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.RunRequest | dg.SkipReason:
        now = settings.read()
        lost = failed_outside(context.instance, job.name, worker)

        async def look(opened: Database) -> str:
            if watched.core:
                group = await look_after_core(opened, now, noticed_by=f"schedule {job.name}", failed_runs=lost)
                if not group.runs:
                    return group.explain()
            else:
                await _show_lost(opened, now, worker, lost)
            if not await watched.due(opened, now):
                await Heartbeats(opened).beat(now.network_class, worker, duration_ms=0, items=0)
                return watched.nothing(now)
            return await _pause(opened, now, worker, interval_seconds)

        skipped = database.read(look)
        mark_noticed(context.instance, lost)
        return dg.SkipReason(skipped) if skipped else request_of(context)

    return when_due
