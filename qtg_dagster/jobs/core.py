"""Letting a halted core group go on, as a job for the launchpad."""

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.store.core_group import core_group, resume_core_group
from resources import DatabaseResource, SettingsResource


class CoreResumption(dg.Config):
    """Who lets the group go on, and why that is safe now."""

    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="what was found and done; goes into the audit trail")


@dg.op(
    name="resume_core_workers",
    out=dg.Out(dg.Nothing),
    description="Let the core workers start again after they halted; deaths so far no longer count.",
)
async def resume_core_workers(
    context: dg.OpExecutionContext, config: CoreResumption, settings: SettingsResource, database: DatabaseResource
) -> None:
    network_class = settings.read().network_class
    with shown_in_the_ui():
        async with database.open() as opened:
            stood = (await core_group(opened, network_class)).explain()
            await resume_core_group(opened, network_class, actor=config.actor, reason=config.reason)
    context.add_output_metadata({"stood": stood, "resumed by": config.actor})


@dg.job(executor_def=dg.in_process_executor, description=resume_core_workers.description)
def resume_core() -> None:
    resume_core_workers()
