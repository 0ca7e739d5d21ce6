"""The sensor that keeps the delivery drain alive while there is anything to tell."""

from datetime import UTC, datetime

import dagster as dg

from qtg_dagster.engine.shift import overdue_seconds
from qtg_dagster.settings import Settings
from qtg_dagster.upkeep.delivery import DELIVER
from resources import DeliveryResource, SettingsResource
from sensors.drains import live_runs
from sensors.keeping_alive import judge
from sensors.switches import worker_switch

_INTERVAL_SECONDS = 5
#: What falls due while a run would be starting already counts.
_HORIZON_SECONDS = 10.0


def delivery_sensor(settings: Settings) -> dg.SensorDefinition:
    """Launches the drain that carries callbacks, audit entries and notifications."""
    switch = worker_switch(settings)

    @dg.sensor(
        name="pending_outbox",
        job_name=DELIVER,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=switch.sensor_status,
        description=switch.explain(
            "Keeps a delivery drain alive while callbacks, audit entries or notifications wait."
        ),
    )
    def keep_alive(
        context: dg.SensorEvaluationContext, settings: SettingsResource, delivery: DeliveryResource
    ) -> dg.SensorResult:
        now = settings.read()
        waiting, slot = delivery.look(horizon_seconds=_HORIZON_SECONDS, overdue_seconds=overdue_seconds(now))
        runs = [run for run in live_runs(context.instance, DELIVER) if run.run_id not in slot.hung_runs]
        verdict = judge(sum(waiting.values()), slot, runs, now.drain_budget_seconds, datetime.now(UTC), what="item")
        told = ", ".join(f"{worker} {many}" for worker, many in waiting.items() if many)
        if not verdict.launch:
            return dg.SensorResult(skip_reason=dg.SkipReason(f"{verdict.reason}{f' ({told})' if told else ''}"))
        context.log.info(f"{verdict.reason} ({told})")
        return dg.SensorResult(run_requests=[dg.RunRequest()])

    return keep_alive
