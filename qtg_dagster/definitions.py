"""Everything Dagster sees of QTG. Loading it reads settings and touches no database."""

from __future__ import annotations

import dagster as dg

from assets.alerts import alerts, no_critical_alert_open
from assets.audit import audit_trail, verify_audit_chain
from assets.balances import balance_snapshots, balances
from assets.breakers import none_held_back
from assets.callbacks import callbacks, none_in_dlq
from assets.capital_transfers import capital_transfers, transfer_checks
from assets.cex_transfer_checks import record_checks
from assets.cex_transfers import cex_transfers_asset
from assets.checks import asset_checks
from assets.executors import executor_health, executors
from assets.movements import movements
from assets.nonces import evm_nonces, no_dead_nonce
from assets.retention import retain_job, retention, retention_keeps_up
from assets.workers import worker_checks, workers
from qtg_dagster.jobs.alerts import acknowledge_alert
from qtg_dagster.jobs.breakers import breaker_jobs
from qtg_dagster.jobs.callbacks import callback_jobs
from qtg_dagster.jobs.capital_transfers import transfer_jobs
from qtg_dagster.jobs.cex_transfers import record_jobs
from qtg_dagster.jobs.core import resume_core
from qtg_dagster.jobs.decisions import decision_jobs
from qtg_dagster.jobs.delivery import deliver
from qtg_dagster.jobs.drains import drain_jobs
from qtg_dagster.jobs.expirations import expire
from qtg_dagster.jobs.limits import limit_jobs
from qtg_dagster.jobs.movements import movement_jobs
from qtg_dagster.jobs.nonces import nonce_jobs
from qtg_dagster.jobs.review import review_movement
from qtg_dagster.jobs.signers import enrol_signer
from qtg_dagster.jobs.templates import proposal_jobs
from qtg_dagster.jobs.upkeep import reaper_jobs
from qtg_dagster.settings import Settings, load_settings
from resources import ResourceSet
from sensors.delivery import delivery_sensor
from sensors.drains import drain_sensors
from sensors.expirations import expirations_sensor
from sensors.movements import movements_sensor
from sensors.schedules import schedules


def build_definitions(settings: Settings, resources: ResourceSet) -> dg.Definitions:
    """All definitions, for these settings' flags and intervals and with these resources."""
    return dg.Definitions(
        assets=[
            alerts,
            audit_trail,
            balances,
            callbacks,
            capital_transfers,
            cex_transfers_asset(settings),
            evm_nonces,
            executors,
            movements,
            retention,
            workers,
        ],
        asset_checks=[
            *asset_checks,
            no_critical_alert_open,
            none_in_dlq,
            none_held_back,
            *transfer_checks,
            no_dead_nonce,
            *record_checks,
            *worker_checks,
            retention_keeps_up,
        ],
        jobs=[
            *drain_jobs.values(),
            deliver,
            *movement_jobs,
            *proposal_jobs,
            *decision_jobs,
            review_movement,
            *breaker_jobs,
            *limit_jobs,
            *callback_jobs,
            *nonce_jobs,
            enrol_signer,
            executor_health,
            balance_snapshots,
            *reaper_jobs,
            *transfer_jobs,
            *record_jobs,
            expire,
            resume_core,
            acknowledge_alert,
            retain_job,
            verify_audit_chain,
        ],
        sensors=[
            *drain_sensors(settings),
            delivery_sensor(settings),
            movements_sensor(settings),
            expirations_sensor(settings),
        ],
        schedules=schedules(settings),
        resources=resources.by_key(),
        executor=dg.in_process_executor,
    )


defs = build_definitions(load_settings(), ResourceSet.wired())
