"""Acknowledging an alert, as a job for the launchpad."""

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.alerts.acting import acknowledge_alert as acknowledge
from resources import DatabaseResource, SettingsResource


class Acknowledgement(dg.Config):
    """Who knows of which alert, and for how long nobody need be reminded."""

    alert_id: int = Field(description="the alert's number, as the asset `alerts` and the message show it")
    hours: float = Field(default=4, gt=0, le=720, description="for how long nobody is reminded of it")
    actor: str = Field(min_length=1, description="who knows of it; goes into the audit trail")
    reason: str = Field(min_length=1, description="what is being done about it; goes into the audit trail")


@dg.op(
    name="acknowledge_open_alert",
    out=dg.Out(dg.Nothing),
    description="Say that somebody knows of an alert: nobody is reminded of it for so long, unless it gets worse.",
)
async def acknowledge_one(
    context: dg.OpExecutionContext, config: Acknowledgement, settings: SettingsResource, database: DatabaseResource
) -> None:
    now = settings.read()
    with shown_in_the_ui():
        async with database.open() as opened:
            until = await acknowledge(
                opened, now, config.alert_id, actor=config.actor, reason=config.reason, seconds=config.hours * 3600
            )
    context.add_output_metadata({"alert": config.alert_id, "acknowledged by": config.actor, "until": until.isoformat()})


@dg.job(executor_def=dg.in_process_executor, description=acknowledge_one.description)
def acknowledge_alert() -> None:
    acknowledge_one()
