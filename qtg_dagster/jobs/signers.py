"""Enrolling a signer, as a job for the launchpad."""

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.signer_identity import enrol_signer as enrol
from resources import PlatformResource


class Enrolment(dg.Config):
    """Who a signer is."""

    signer_key: str = Field(description="the signer's key in the inventory, e.g. signer.local.treasury")
    address: str = Field(description="the 0x address of the key that it must sign with")
    actor: str = Field(min_length=1, description="who says so; goes into the audit trail")
    reason: str = Field(min_length=1, description="where the address is known from; goes into the audit trail")


@dg.op(name="enrol", out=dg.Out(dg.Nothing), description="Say which address a signer must sign with.")
async def enrol_one(context: dg.OpExecutionContext, config: Enrolment, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            enrolled = await enrol(
                parts.engine, config.signer_key, config.address, actor=config.actor, reason=config.reason
            )
            context.add_output_metadata({"signer": enrolled.signer_key, "identity": enrolled.told()})


@dg.job(executor_def=dg.in_process_executor, description=enrol_one.description)
def enrol_signer() -> None:
    enrol_one()
