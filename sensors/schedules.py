"""Schedules: health of executors, balances, deletion, and nonces to give back."""

from typing import Any

import dagster as dg

from assets.balances import balance_snapshots
from assets.executors import executor_health
from assets.keys import WINDOW_TAG
from assets.retention import retain_job
from qtg_dagster.jobs.upkeep import reap_evm_nonces
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.upkeep.core_group import look_after_core
from qtg_dagster.upkeep.cycles import backing_off, cron_of, cycle_key
from qtg_dagster.upkeep.nonce_reaper import count_due_nonces
from qtg_dagster.upkeep.workers import BALANCE_SNAPSHOT, EXECUTOR_HEALTH, NONCE_REAPER, RETENTION
from resources import DatabaseResource, SettingsResource
from sensors.failures import failed_outside, mark_noticed
from sensors.switches import evm_switch, worker_switch


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
    return [health, balances, deletion, _reaping(settings)]


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
            for run in lost:  # contained: it shows in the worker's own heartbeat, and the others go on
                await Heartbeats(opened).beat(
                    now.network_class, worker, duration_ms=0, items=0, error=RuntimeError(run.detail)
                )
            # A run serves the windows of its minute: it is worth starting when the pause ends within it.
            return await backing_off(opened, now.network_class, worker, ahead_seconds=60 - min(interval_seconds, 60))

        pause = database.read(look)
        mark_noticed(context.instance, lost)
        return dg.SkipReason(pause) if pause else request_of(context)

    return every


def _reaping(settings: Settings) -> dg.ScheduleDefinition:
    switch = evm_switch(settings, "evm_nonce_reaper_enabled")

    @dg.schedule(
        name=reap_evm_nonces.name,
        job=reap_evm_nonces,
        cron_schedule=cron_of(settings.evm_nonce_reaper_interval_seconds),
        execution_timezone="UTC",
        default_status=switch.schedule_status,
        description=switch.explain(
            "Gives back nonces that were never signed, and looks after those that nobody will use."
        ),
    )
    def when_there_are_old_ones(
        context: dg.ScheduleEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.RunRequest | dg.SkipReason:
        now = settings.read()
        age = now.evm_nonce_reservation_max_age_seconds

        died = failed_outside(context.instance, reap_evm_nonces.name, NONCE_REAPER)

        async def look(opened: Database) -> str:
            group = await look_after_core(opened, now, noticed_by="schedule reap_evm_nonces", failed_runs=died)
            if not group.runs:
                return group.explain()
            old, open_ones = await count_due_nonces(opened, now)
            if not old and not open_ones:  # that was the pass: nothing to do is a sign of life too
                await Heartbeats(opened).beat(now.network_class, NONCE_REAPER, duration_ms=0, items=0)
                return f"no reservation is older than {age} s, and no signed nonce waits for a look"
            return await backing_off(opened, now.network_class, NONCE_REAPER)

        skipped = database.read(look)
        mark_noticed(context.instance, died)
        return dg.SkipReason(skipped) if skipped else request_of(context)

    return when_there_are_old_ones
