"""The workers that are expected to show signs of life, by the runtime reference's names, and how each does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from qtg_dagster.domain.alerts import NOTIFICATION_DISPATCHER
from qtg_dagster.domain.callbacks import CALLBACK_DISPATCHER
from qtg_dagster.domain.cex_transfers import CEX_TRANSFER_INGEST
from qtg_dagster.domain.core_group import CoreGroup, CoreStanding
from qtg_dagster.domain.proposals import TEMPLATE_PROPOSAL_EXPIRATION
from qtg_dagster.domain.workers import ALARMING, SLACK_SECONDS, Circumstances, Heartbeat, WorkerState, classify
from qtg_dagster.engine.drain import WORKER_NAMES
from qtg_dagster.engine.expiry import EXPIRATION_CHECKER
from qtg_dagster.engine.shift import HEARTBEAT_SECONDS
from qtg_dagster.settings import Settings
from qtg_dagster.store.alert_deliveries import count_pending
from qtg_dagster.store.audit_chain import waiting_entries
from qtg_dagster.store.backlog import Backlogs
from qtg_dagster.store.callbacks import CallbackOutbox
from qtg_dagster.store.core_group import core_group
from qtg_dagster.store.database import Database
from qtg_dagster.store.life_signs import live_kinds, read_heartbeats
from qtg_dagster.upkeep.audit_promoter import AUDIT_PROMOTER
from qtg_dagster.upkeep.audit_verification import AUDIT_VERIFICATION
from qtg_dagster.upkeep.core_group import look_after_core
from qtg_dagster.upkeep.delivery import DELIVER

EXECUTOR_HEALTH = "executor_health"
NONCE_REAPER = "evm_nonce_reaper"
CCIP_REAPER = "ccip_stranded_reaper"
CAPITAL_FOLLOWUP = "capital_transfer_followup"
BALANCE_SNAPSHOT = "balance_snapshot"
RETENTION = "retention"
#: Entries of an outbox that are counted at most: enough to say that many wait.
_MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker, whether it is on, its rhythm, and whether the core group falls with it.

    `drain` is the kind of the drain whose process it works in.
    """

    name: str
    on: bool
    interval_seconds: float
    core: bool = False
    drain: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerStanding:
    """How one worker does."""

    spec: WorkerSpec
    heartbeat: Heartbeat
    state: WorkerState
    waiting: int | None
    now: datetime

    @property
    def alarming(self) -> bool:
        return self.state in ALARMING

    def told(self) -> str:
        """One line: the state and what it rests on."""
        beat = self.heartbeat
        parts = [self.state.value, f"last pass {_ago(beat.last_attempt_at, self.now)}"]
        if beat.last_outcome == "error" or beat.consecutive_errors:
            parts.append(f"{beat.consecutive_errors} errors in a row, last: {beat.last_error}")
            parts.append(f"last success {_ago(beat.last_success_at, self.now)}")
        if self.waiting:
            what = "item" if self.spec.drain == DELIVER else "node"
            parts.append(f"1 {what} waits" if self.waiting == 1 else f"{self.waiting} {what}s wait")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Survey:
    """The core group and every worker."""

    group: CoreGroup
    workers: tuple[WorkerStanding, ...]

    def alarms(self) -> list[WorkerStanding]:
        return [one for one in self.workers if one.alarming]


def worker_specs(settings: Settings) -> list[WorkerSpec]:
    """Every worker there is, with its rhythm; drains beat while they live, the others once a pass."""
    on = settings.workers_enabled
    drains = [
        WorkerSpec(name, on, HEARTBEAT_SECONDS, core=True, drain=kind.value) for kind, name in WORKER_NAMES.items()
    ]
    scheduled = [
        WorkerSpec(EXECUTOR_HEALTH, on, max(60, settings.executor_health_interval_seconds)),
        WorkerSpec(
            NONCE_REAPER,
            on and settings.evm_nonce_reaper_enabled and not settings.evm_missing,
            max(60, settings.evm_nonce_reaper_interval_seconds),
            core=True,
        ),
        WorkerSpec(
            CCIP_REAPER,
            on and settings.ccip_stranded_reaper_enabled,
            max(60, settings.ccip_stranded_reaper_interval_seconds),
            core=True,
        ),
        WorkerSpec(
            CAPITAL_FOLLOWUP,
            on and settings.capital_transfer_followup_enabled,
            max(60, settings.capital_transfer_followup_interval_seconds),
        ),
        WorkerSpec(
            BALANCE_SNAPSHOT,
            on and settings.balance_snapshot_enabled,
            max(60, settings.balance_snapshot_interval_seconds),
        ),
        WorkerSpec(
            CEX_TRANSFER_INGEST,
            on and bool(settings.recorded_venues),
            max(60, settings.cex_transfer_ingest_interval_seconds),
        ),
        WorkerSpec(RETENTION, on, settings.retention_interval_seconds),
        WorkerSpec(AUDIT_VERIFICATION, on, settings.audit_verification_interval_seconds),
    ]
    couriers = [
        WorkerSpec(name, on and switched_on, max(HEARTBEAT_SECONDS, every), drain=DELIVER)
        for name, switched_on, every in (
            (CALLBACK_DISPATCHER, True, settings.callback_dispatch_interval_seconds),
            (AUDIT_PROMOTER, True, settings.audit_promotion_interval_seconds),
            (NOTIFICATION_DISPATCHER, settings.notify_enabled, settings.notify_interval_seconds),
        )
    ]
    # Their sensor looks as often as the quicker one wants it, and a run takes some seconds to start.
    swept = min(settings.expiration_check_interval_seconds, settings.template_proposal_expiration_interval_seconds)
    sweepers = [WorkerSpec(each, on, max(30, swept)) for each in (EXPIRATION_CHECKER, TEMPLATE_PROPOSAL_EXPIRATION)]
    return [*drains, *couriers, *scheduled, *sweepers]


def expected_workers(settings: Settings) -> list[str]:
    """Names of the workers that these settings switch on."""
    return [spec.name for spec in worker_specs(settings) if spec.on]


async def survey_workers(database: Database, settings: Settings, *, asked_by: str) -> Survey:
    """How the core group and each worker do at this moment; deaths that nobody has noticed are recorded."""
    return await _survey(database, settings, await look_after_core(database, settings, noticed_by=asked_by))


async def read_survey(database: Database, settings: Settings) -> Survey:
    """The same, for who may only read: deaths are noticed by others."""
    return await _survey(database, settings, await core_group(database, settings.network_class))


async def _survey(database: Database, settings: Settings, group: CoreGroup) -> Survey:
    beats = await read_heartbeats(database, settings.network_class)
    alive = await live_kinds(database, settings.network_class)
    backlog = await Backlogs(database).count_backlog(settings.network_class)
    async with database.transaction() as tx:
        messages = await count_pending(tx, settings.network_class)
    older = await Backlogs(database).count_backlog(settings.network_class, horizon_seconds=-SLACK_SECONDS)
    outbox = CallbackOutbox(database)
    waiting = {name: backlog.of(kind) for kind, name in WORKER_NAMES.items()} | {
        CALLBACK_DISPATCHER: await outbox.waiting(settings.network_class, 0),
        AUDIT_PROMOTER: (await waiting_entries(database, settings.network_class, most=_MOST_COUNTED)).entries,
        NOTIFICATION_DISPATCHER: messages,
    }
    long = {name: older.of(kind) for kind, name in WORKER_NAMES.items()} | {
        CALLBACK_DISPATCHER: await outbox.waiting(settings.network_class, -SLACK_SECONDS),
    }
    return Survey(group, tuple(_stand(worker_specs(settings), beats, alive, waiting, long, group)))


def _stand(
    specs: Sequence[WorkerSpec],
    beats: dict[str, Heartbeat],
    alive: set[str],
    waiting: dict[str, int],
    long: dict[str, int],
    group: CoreGroup,
) -> list[WorkerStanding]:
    found: list[WorkerStanding] = []
    for spec in specs:
        around = Circumstances(
            on=spec.on,
            halted=spec.core and group.standing is CoreStanding.HALTED,
            alive=spec.drain in alive if spec.drain else None,
            waiting=waiting.get(spec.name),
            waiting_long=long.get(spec.name),
        )
        beat = beats.get(spec.name, Heartbeat(spec.name))
        state = classify(beat, spec.interval_seconds, around, group.now)
        found.append(WorkerStanding(spec, beat, state, around.waiting, group.now))
    return found


def _ago(moment: datetime | None, now: datetime) -> str:
    return "never" if moment is None else f"{max(0.0, (now - moment).total_seconds()):.0f} s ago"
