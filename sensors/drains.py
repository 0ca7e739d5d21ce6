"""The sensors that keep a drain alive while there is work for it."""

from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from qtg_dagster.domain.core_group import CoreGroup
from qtg_dagster.engine.drain import WORKER_NAMES, DrainKind
from qtg_dagster.engine.shift import overdue_seconds
from qtg_dagster.jobs.drains import SLOT_TAG, drain_jobs, slot_of, slot_tag
from qtg_dagster.settings import Settings
from qtg_dagster.store.backlog import Backlogs
from qtg_dagster.store.core_group import dead_runs
from qtg_dagster.store.database import Database
from qtg_dagster.store.slots import SlotState, slot_state
from qtg_dagster.upkeep.core_group import look_after_core
from resources import DatabaseResource, SettingsResource
from sensors.failures import failed_outside, mark_noticed
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
        verdicts = look(context.instance, settings.read(), database, watch)
        wanted = [slot for slot, verdict in enumerate(verdicts) if verdict.launch]
        if not wanted:
            return dg.SensorResult(skip_reason=dg.SkipReason("; ".join(verdict.reason for verdict in verdicts)))
        for slot in wanted:
            context.log.info(verdicts[slot].reason)
        return dg.SensorResult(run_requests=[dg.RunRequest(tags={SLOT_TAG: slot_tag(watch.kind, s)}) for s in wanted])

    return keep_alive


def look(
    instance: dg.DagsterInstance, settings: Settings, database: DatabaseResource, watch: DrainWatch
) -> list[Verdict]:
    """What is to be done about one kind of drain now, slot by slot.

    A further slot is filled only for what the drains before it do not work at once. Recovery has one slot: its budget
    is for a pass, however many nodes wait.
    """

    failed = failed_outside(instance, watch.kind.value, WORKER_NAMES[watch.kind])

    async def see(opened: Database) -> Seen:
        group = await look_after_core(opened, settings, noticed_by=f"sensor {watch.name}", failed_runs=failed)
        backlog = await Backlogs(opened).count_backlog(settings.network_class, horizon_seconds=watch.horizon_seconds)
        many = 1 if watch.kind is DrainKind.RECOVER else settings.drain_slots
        overdue = overdue_seconds(settings)
        slots = [
            await slot_state(opened, watch.kind, settings.network_class, slot, overdue_seconds=overdue)
            for slot in range(many)
        ]
        return Seen(group, backlog.of(watch.kind), slots, await dead_runs(opened, settings.network_class))

    seen = database.read(see)
    mark_noticed(instance, failed)
    if not seen.group.runs:
        return [Verdict(False, seen.group.explain())]
    if seen.waiting == 0:
        return [judge(0, seen.slots[0], (), settings.drain_budget_seconds, datetime.now(UTC))]
    runs = [run for run in live_runs(instance, watch.kind.value) if run.run_id not in seen.out_of_work]
    return [
        judge(
            max(0, seen.waiting - place * settings.drain_concurrency),
            slot,
            [run for run in runs if run.slot == place],
            settings.drain_budget_seconds,
            datetime.now(UTC),
            standby=settings.drain_standby,
        )
        for place, slot in enumerate(seen.slots)
    ]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the database found."""

    group: CoreGroup
    waiting: int
    slots: list[SlotState]
    dead_runs: set[str]

    @property
    def out_of_work(self) -> set[str]:
        """Runs whose drain is dead or hangs."""
        return self.dead_runs.union(*(slot.hung_runs for slot in self.slots))


def live_runs(instance: dg.DagsterInstance, job_name: str) -> list[LiveRun]:
    """The newest runs of a drain that have not ended."""
    alive = dg.RunsFilter(job_name=job_name, statuses=_ALIVE)
    return [
        LiveRun(
            record.dagster_run.run_id,
            record.create_timestamp,
            record.dagster_run.status is dg.DagsterRunStatus.CANCELING,
            slot_of(record.dagster_run.tags),
        )
        for record in instance.get_run_records(alive, limit=50)
    ]
