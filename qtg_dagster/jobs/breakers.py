"""Breakers as jobs for the launchpad: open, release slowly, close."""

import dagster as dg
from pydantic import Field

from qtg_dagster.domain.breakers import Breaker
from qtg_dagster.engine.breakers import MOST_PER_MINUTE
from qtg_dagster.engine.breakers import close_breaker as close
from qtg_dagster.engine.breakers import open_breaker as hold
from qtg_dagster.engine.breakers import release_breaker as release
from qtg_dagster.jobs.refusals import shown_in_the_ui
from resources import PlatformResource


class Opening(dg.Config):
    """What must not start, and why."""

    scope: str = Field(description="lane:NAME, venue:NAME, chain:CAIP-2 or network:CLASS, e.g. lane:cex")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="what is wrong; goes into the audit trail")


class Release(dg.Config):
    """How fast what is held back may start."""

    scope: str = Field(description="the open breaker's scope")
    per_minute: int = Field(ge=1, le=MOST_PER_MINUTE, description="how many nodes may start in any minute")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(default="", description="why it can go on now; goes into the audit trail")


class Closing(dg.Config):
    """What may start again."""

    scope: str = Field(description="the open breaker's scope")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(default="", description="what was found and done; goes into the audit trail")


@dg.op(name="open", out=dg.Out(dg.Nothing), description="Let nothing under a scope start; finish what is in flight.")
async def open_one(context: dg.OpExecutionContext, config: Opening, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            _show(context, await hold(parts.engine, config.scope, actor=config.actor, reason=config.reason))


@dg.op(name="release", out=dg.Out(dg.Nothing), description="Let what a breaker holds back start slowly.")
async def release_one(context: dg.OpExecutionContext, config: Release, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            released = await release(
                parts.engine, config.scope, per_minute=config.per_minute, actor=config.actor, reason=config.reason
            )
            _show(context, released)


@dg.op(name="close", out=dg.Out(dg.Nothing), description="Let everything under a scope start again.")
async def close_one(context: dg.OpExecutionContext, config: Closing, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            closed = await close(parts.engine, config.scope, actor=config.actor, reason=config.reason)
    context.add_output_metadata({"scope": closed.scope, "stood": closed.told(), "closed by": config.actor})


def _show(context: dg.OpExecutionContext, breaker: Breaker) -> None:
    context.add_output_metadata(
        {
            "scope": breaker.scope,
            "stands": breaker.told(),
            "holds back": breaker.held,
            "let through": breaker.let_through,
        }
    )


@dg.job(executor_def=dg.in_process_executor, description=open_one.description)
def open_breaker() -> None:
    open_one()


@dg.job(executor_def=dg.in_process_executor, description=release_one.description)
def release_breaker() -> None:
    release_one()


@dg.job(executor_def=dg.in_process_executor, description=close_one.description)
def close_breaker() -> None:
    close_one()


breaker_jobs = (open_breaker, release_breaker, close_breaker)
