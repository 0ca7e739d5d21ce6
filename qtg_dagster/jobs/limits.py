"""Velocity limits as jobs for the launchpad: set, clear."""

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.treasury.limits import clear_velocity_limit as clear
from qtg_dagster.treasury.limits import set_velocity_limit as set_limit
from resources import PlatformResource


class DailyLimit(dg.Config):
    """How much may leave."""

    asset: str = Field(description="the asset's key in the inventory, e.g. USDC")
    daily: str = Field(description="decimal amount that may leave in one day (UTC), over all movements")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


class NoLimit(dg.Config):
    """What is not limited any more."""

    asset: str = Field(description="the asset whose limit goes")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


@dg.op(name="set_limit", out=dg.Out(dg.Nothing), description="Let at most so much of an asset leave in a day (UTC).")
async def set_one(context: dg.OpExecutionContext, config: DailyLimit, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            limit = await set_limit(parts.engine, config.asset, config.daily, actor=config.actor, reason=config.reason)
            left, daily = limit.text(limit.left_units), limit.text(limit.daily_units)
            context.add_output_metadata({"asset": limit.asset, "daily": daily, "left today": left})


@dg.op(name="clear_limit", out=dg.Out(dg.Nothing), description="Take the daily limit of an asset away.")
async def clear_one(config: NoLimit, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await clear(parts.engine, config.asset, actor=config.actor, reason=config.reason)


@dg.job(executor_def=dg.in_process_executor, description=set_one.description)
def set_velocity_limit() -> None:
    set_one()


@dg.job(executor_def=dg.in_process_executor, description=clear_one.description)
def clear_velocity_limit() -> None:
    clear_one()


limit_jobs = (set_velocity_limit, clear_velocity_limit)
