"""The sensors that keep a drain alive while there is work for it."""

from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from qtg_dagster.engine.drain import DrainKind
from qtg_dagster.jobs.drains import SLOT_TAG, drain_jobs
from qtg_dagster.settings import Settings
from qtg_dagster.store.backlog import count_backlog
from qtg_dagster.store.database import Database
from qtg_dagster.store.slots import SlotState, slot_state
from resources import DatabaseResource, SettingsResource
from sensors.keeping_alive import LiveRun, Verdict, judge
from sensors.switches import worker_switch

_ALIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True, slots=True)
class DrainWatch:
    """One drain sensor: what it watches, how often, and how far it looks ahead."""

    name: str
    kind: DrainKind
    interval_seconds: float
    horizon_seconds: float
    description: str


def drain_sensors(settings: Settings) -> list[dg.SensorDefinition]:
    """The three sensors, at the intervals of the settings."""
    # A node that falls due while a run would be starting already counts.
    ahead = settings.node_observe_interval_seconds + 10
    watches = (
        DrainWatch(
            "ready_nodes",
            DrainKind.DISPATCH,
            settings.node_dispatch_interval_seconds,
            ahead,
            "READY nodes of approved movements.",
        ),
        DrainWatch(
            "submitted_nodes",
            DrainKind.OBSERVE,
            settings.node_observe_interval_seconds,
            ahead,
            "SUBMITTED and OBSERVING nodes that are due, or will be in a moment.",
        ),
        DrainWatch(
            "unknown_nodes",
            DrainKind.RECOVER,
            settings.node_recovery_interval_seconds,
            0,
            "UNKNOWN nodes, and SUBMITTING ones that nobody finishes.",
        ),
    )
    return [_sensor(watch, settings) for watch in watches]


def _sensor(watch: DrainWatch, settings: Settings) -> dg.SensorDefinition:
    switch = worker_switch(settings)

    @dg.sensor(
        name=watch.name,
        job_name=drain_jobs[watch.kind].name,
        minimum_interval_seconds=max(1, round(watch.interval_seconds)),
        default_status=switch.sensor_status,
        description=switch.explain(f"Keeps a {watch.kind} drain alive while there are {watch.description}"),
    )
    def keep_alive(
        context: dg.SensorEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.SensorResult:
        verdict = look(context.instance, settings.read(), database, watch)
        if not verdict.launch:
            return dg.SensorResult(skip_reason=dg.SkipReason(verdict.reason))
        context.log.info(verdict.reason)
        return dg.SensorResult(run_requests=[dg.RunRequest(tags={SLOT_TAG: watch.kind.value})])

    return keep_alive


def look(instance: dg.DagsterInstance, settings: Settings, database: DatabaseResource, watch: DrainWatch) -> Verdict:
    """What is to be done about one kind of drain now."""

    async def see(opened: Database) -> tuple[int, SlotState]:
        backlog = await count_backlog(opened, settings.network_class, horizon_seconds=watch.horizon_seconds)
        return backlog.of(watch.kind), await slot_state(opened, watch.kind, settings.network_class)

    waiting, slot = database.read(see)
    if waiting == 0:
        return judge(waiting, slot, (), settings.drain_budget_seconds, datetime.now(UTC))
    runs = live_runs(instance, watch.kind)
    return judge(waiting, slot, runs, settings.drain_budget_seconds, datetime.now(UTC))


def live_runs(instance: dg.DagsterInstance, kind: DrainKind) -> list[LiveRun]:
    """The newest runs of a drain that have not ended."""
    alive = dg.RunsFilter(job_name=kind.value, statuses=_ALIVE)
    return [
        LiveRun(
            record.dagster_run.run_id,
            record.create_timestamp,
            record.dagster_run.status is dg.DagsterRunStatus.CANCELING,
        )
        for record in instance.get_run_records(alive, limit=5)
    ]
