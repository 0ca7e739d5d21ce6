"""Schedules: health of executors, balances, and nonces to give back."""

from typing import Any

import dagster as dg

from assets.balances import balance_snapshots
from assets.executors import executor_health
from assets.keys import WINDOW_TAG
from qtg_dagster.jobs.upkeep import reap_evm_nonces
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import beat
from qtg_dagster.upkeep.cycles import cron_of, cycle_key
from qtg_dagster.upkeep.nonce_reaper import count_old_reservations
from qtg_dagster.upkeep.workers import NONCE_REAPER
from resources import DatabaseResource, SettingsResource
from sensors.switches import worker_switch


def schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    """The three schedules, at the cadences of the settings."""
    health = _schedule(
        executor_health,
        settings.executor_health_interval_seconds,
        worker_switch(settings).schedule_status,
        worker_switch(settings).explain("Asks every executor and signer whether it can be reached."),
    )
    balances_switch = worker_switch(settings, "balance_snapshot_enabled")
    balances = _schedule(
        balance_snapshots,
        settings.balance_snapshot_interval_seconds,
        balances_switch.schedule_status,
        balances_switch.explain("Reads the balances of every venue and chain."),
    )
    return [health, balances, _reaping(settings)]


def request_of(scheduled: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """The run that serves the windows of a tick; the same tick never starts two."""
    at = cycle_key(scheduled.scheduled_execution_time)
    return dg.RunRequest(run_key=at, tags={WINDOW_TAG: f"{scheduled.scheduled_execution_time:%Y-%m-%dT%H:%MZ}"})


def _schedule(
    job: Any, interval_seconds: int, status: dg.DefaultScheduleStatus, description: str
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=cron_of(interval_seconds),
        execution_timezone="UTC",
        default_status=status,
        description=description,
    )
    def every(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        return request_of(context)

    return every


def _reaping(settings: Settings) -> dg.ScheduleDefinition:
    switch = worker_switch(settings, "evm_nonce_reaper_enabled")

    @dg.schedule(
        name=reap_evm_nonces.name,
        job=reap_evm_nonces,
        cron_schedule=cron_of(settings.evm_nonce_reaper_interval_seconds),
        execution_timezone="UTC",
        default_status=switch.schedule_status,
        description=switch.explain("Gives back nonces that were reserved for something that was never sent."),
    )
    def when_there_are_old_ones(
        context: dg.ScheduleEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.RunRequest | dg.SkipReason:
        now = settings.read()
        age = now.evm_nonce_reservation_max_age_seconds

        async def look(opened: Database) -> int:
            old = await count_old_reservations(opened, age)
            if not old:  # that was the pass: nothing to do is a sign of life too
                await beat(opened, now.network_class, NONCE_REAPER, duration_ms=0, items=0)
            return old

        if database.read(look) == 0:
            return dg.SkipReason(f"no reservation is older than {age} s")
        return request_of(context)

    return when_there_are_old_ones
