"""Callbacks as jobs for the launchpad: redrive what was given up, resend what was told."""

import dagster as dg
from pydantic import Field

from qtg_dagster.callbacks.redriving import redrive_callbacks as redrive
from qtg_dagster.callbacks.redriving import resend_callbacks as resend
from qtg_dagster.jobs.refusals import shown_in_the_ui
from resources import PlatformResource


class GivenUp(dg.Config):
    """Which callbacks of the dlq; neither movement nor receiver = all."""

    request_id: str | None = Field(default=None, description="only those of this movement")
    receiver: str | None = Field(default=None, description="only those of this receiver: host, or host:port")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


class OnceMore(dg.Config):
    """Which callbacks; exactly one of event, movement and transaction."""

    event_id: str | None = Field(default=None, description="this one callback")
    request_id: str | None = Field(default=None, description="all of this movement")
    transaction_hash: str | None = Field(default=None, description="all of the movements it is part of")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


@dg.op(name="redrive", out=dg.Out(dg.Nothing), description="Try callbacks anew that nobody tries any more (the dlq).")
async def redrive_some(context: dg.OpExecutionContext, config: GivenUp, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            many = await redrive(
                parts.engine,
                request_id=config.request_id,
                receiver=config.receiver,
                actor=config.actor,
                reason=config.reason,
            )
            context.add_output_metadata({"callbacks": many})


@dg.op(name="resend", out=dg.Out(dg.Nothing), description="Tell once more, under the same id, what was told already.")
async def resend_some(context: dg.OpExecutionContext, config: OnceMore, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            resent = await resend(
                parts.engine,
                event_id=config.event_id,
                request_id=config.request_id,
                transaction_hash=config.transaction_hash,
                actor=config.actor,
                reason=config.reason,
            )
            context.add_output_metadata({"told once more": resent.again, "on their way already": resent.waiting})


@dg.job(executor_def=dg.in_process_executor, description=redrive_some.description)
def redrive_callbacks() -> None:
    redrive_some()


@dg.job(executor_def=dg.in_process_executor, description=resend_some.description)
def resend_callbacks() -> None:
    resend_some()


callback_jobs = (redrive_callbacks, resend_callbacks)
