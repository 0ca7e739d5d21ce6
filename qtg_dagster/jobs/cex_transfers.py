"""Venues' records as jobs: read again by a schedule, and what a person decides about a transfer on them."""

import dagster as dg
from pydantic import Field

from assets.cex_transfers import materialization
from assets.windows import serve
from qtg_dagster.composition import Platform
from qtg_dagster.domain.cex_transfers import CEX_TRANSFER_INGEST
from qtg_dagster.domain.record_days import FOLLOW_UP, DayState
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.treasury.record_decisions import Answered, acknowledge_transfers, settle_transfer
from qtg_dagster.treasury.record_rounds import Round, read_round
from qtg_dagster.upkeep.cycles import PassResult
from resources import PlatformResource


class Acknowledgement(dg.Config):
    """Transfers that no movement made, and who answers for them."""

    transfers: list[int] = Field(default_factory=list, description="their numbers on our record; or venue and before")
    venue: str | None = Field(default=None, description="all that are unmatched at this venue ...")
    before: str | None = Field(default=None, description="... and older than this, e.g. 2026-03-01T00:00:00Z")
    actor: str = Field(min_length=1, description="who answers for them; goes into the audit trail")
    reason: str = Field(min_length=1, description="whose they were, and why; goes into the audit trail")


class Settlement(dg.Config):
    """Which of two ends of one transfer stands."""

    transfer: int = Field(description="its number on our record")
    stands: str = Field(description="ours = what we have; venues = what the venue shows now")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="what the venue said; goes into the audit trail")


@dg.op(name="read_records", out=dg.Out(dg.Nothing), description="Read again what is due of the venues' records.")
async def read_records(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            interval = parts.settings.cex_transfer_ingest_interval_seconds
            await serve(context, parts.engine, CEX_TRANSFER_INGEST, interval, lambda: _work(context, parts))


async def _work(context: dg.OpExecutionContext, parts: Platform) -> PassResult:
    done = await read_round(parts.database, parts.settings, parts.records, parts.engine.clock, context.run.run_id)
    for ingested in done.read:
        for day in ingested.days:
            # A look at what has not ended comes often, and is worth telling when it brought something.
            if day.whole and (ingested.purpose != FOLLOW_UP or day.new or day.changed or day.state is DayState.CLOSED):
                context.log_event(materialization(ingested.venue_key, day))
    context.add_output_metadata(_shown(done))
    problems = {"problems": dict(done.problems)} if done.problems else {}
    return PassResult(sum(each.told()["new"] + each.told()["changed"] for each in done.read), problems)


def _shown(done: Round) -> dict[str, dg.MetadataValue]:
    read = {f"{each.venue_key}, {each.purpose}": dg.MetadataValue.json(each.told()) for each in done.read}
    return {**read, **{f"{venue}, problem": dg.MetadataValue.text(text) for venue, text in done.problems.items()}}


@dg.op(name="acknowledge_transfers", out=dg.Out(dg.Nothing), description="Answer for transfers that no movement made.")
async def acknowledge_some(context: dg.OpExecutionContext, config: Acknowledgement, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            answered = Answered.read(config.transfers, config.venue, config.before)
            count = await acknowledge_transfers(
                parts.database, parts.settings.network_class, answered, actor=config.actor, reason=config.reason
            )
    context.add_output_metadata({"acknowledged": count})


@dg.op(name="settle_transfer", out=dg.Out(dg.Nothing), description="Say which of two ends of a transfer stands.")
async def settle_one(config: Settlement, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await settle_transfer(
                parts.database,
                parts.settings.network_class,
                config.transfer,
                stands=config.stands,
                actor=config.actor,
                reason=config.reason,
            )


@dg.job(executor_def=dg.in_process_executor, description=read_records.description)
def ingest_cex_transfers() -> None:
    read_records()


@dg.job(executor_def=dg.in_process_executor, description=acknowledge_some.description)
def acknowledge_cex_transfers() -> None:
    acknowledge_some()


@dg.job(executor_def=dg.in_process_executor, description=settle_one.description)
def settle_cex_transfer() -> None:
    settle_one()


record_jobs = (ingest_cex_transfers, acknowledge_cex_transfers, settle_cex_transfer)
