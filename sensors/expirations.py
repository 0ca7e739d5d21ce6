"""The sensor that has called off what nobody decided in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from qtg_dagster.engine.expiry import EXPIRATION_CHECKER
from qtg_dagster.jobs.expirations import DUE_TAG, expire
from qtg_dagster.settings import Settings
from qtg_dagster.store.core_group import FailedRun
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.upkeep.cycles import backing_off
from qtg_dagster.upkeep.expirations import due_for
from resources import DatabaseResource, SettingsResource
from sensors.drains import live_runs
from sensors.failures import failed_outside, mark_noticed
from sensors.switches import worker_switch

#: A run that is older has died or hangs; another one beside it does no harm.
_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Due:
    """What one look found: sweepers with something to do, and why others have a rest."""

    waiting: dict[str, int]
    paused: list[str]

    def told(self) -> str:
        return ", ".join(f"{many} for {worker}" for worker, many in self.waiting.items())


def expirations_sensor(settings: Settings) -> dg.SensorDefinition:
    """Launches a run when something is due, as often as the quicker of the two sweepers wants to look."""
    switch = worker_switch(settings)
    interval = min(settings.expiration_check_interval_seconds, settings.template_proposal_expiration_interval_seconds)

    @dg.sensor(
        name="due_expirations",
        job_name=expire.name,
        minimum_interval_seconds=max(1, round(interval)),
        default_status=switch.sensor_status,
        description=switch.explain("Has movements and template proposals called off that nobody decided on in time."),
    )
    def when_due(
        context: dg.SensorEvaluationContext, settings: SettingsResource, database: DatabaseResource
    ) -> dg.SensorResult:
        now = settings.read()
        died = failed_outside(context.instance, expire.name, EXPIRATION_CHECKER)
        due = database.read(lambda opened: look(opened, now, died))
        mark_noticed(context.instance, died)
        if not due.waiting:
            return _skip("; ".join(due.paused) or "nothing is due")
        oldest = datetime.now(UTC) - _PATIENCE
        alive = [run.run_id[:8] for run in live_runs(context.instance, expire.name) if run.launched_at > oldest]
        if alive:
            return _skip(f"{due.told()}; run {', '.join(alive)} is at it")
        context.log.info(due.told())
        return dg.SensorResult(run_requests=[dg.RunRequest(tags={DUE_TAG: ",".join(due.waiting)})])

    return when_due


async def look(database: Database, settings: Settings, died: Sequence[FailedRun]) -> Due:
    """What is due now. To find nothing due is the sweeper's pass: it leaves a sign of life."""
    beats, waiting, paused = Heartbeats(database), dict[str, int](), list[str]()
    for worker, many in (await due_for(database, settings.network_class)).items():
        for run in died:  # contained: it shows in the sweepers' heartbeats, and everything else goes on
            error = RuntimeError(run.detail)
            await beats.beat(settings.network_class, worker, duration_ms=0, items=0, error=error)
        if many:
            pause = await backing_off(database, settings.network_class, worker)
            waiting |= {} if pause else {worker: many}
            paused += [pause] if pause else []
        elif not died:
            await beats.beat(settings.network_class, worker, duration_ms=0, items=0)
    return Due(waiting, paused)


def _skip(reason: str) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=dg.SkipReason(reason))
