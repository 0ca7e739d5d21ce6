"""Filling nonces, as jobs for the launchpad."""

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.nonce_desk import NonceDesk
from resources import PlatformResource


class DeadNonce(dg.Config):
    """Which nonce is used up."""

    chain: str = Field(description="CAIP-2, e.g. eip155:1")
    sender: str = Field(description="the 0x address of one of our accounts")
    nonce: int = Field(ge=0, description="see `qtg nonce list`, or the check no_dead_nonce")
    cancel: bool = Field(default=False, description="also call off a transaction that is under way")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


class MinedAfterAll(dg.Config):
    """A transaction that was mined although its node had ended."""

    chain: str = Field(description="CAIP-2, e.g. eip155:1")
    sender: str = Field(description="the 0x address of one of our accounts")
    nonce: int = Field(ge=0, description="the nonce that it used")
    actor: str = Field(min_length=1, description="who has dealt with it; goes into the audit trail")
    reason: str = Field(min_length=1, description="how; goes into the audit trail")


@dg.op(name="fill", out=dg.Out(dg.Nothing), description="Use up a nonce that nobody will use: 0 to oneself.")
async def fill_one(context: dg.OpExecutionContext, config: DeadNonce, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            filling = await NonceDesk(parts.engine, parts.nonce_chain).fill(
                config.chain,
                config.sender,
                config.nonce,
                actor=config.actor,
                reason=config.reason,
                cancel=config.cancel,
            )
            context.add_output_metadata({"transaction": filling.filler.tx_hash or "", "standing": filling.told()})


@dg.op(name="acknowledge", out=dg.Out(dg.Nothing), description="Say that what was mined after all is dealt with.")
async def acknowledge_one(config: MinedAfterAll, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            await NonceDesk(parts.engine, parts.nonce_chain).acknowledge(
                config.chain, config.sender, config.nonce, actor=config.actor, reason=config.reason
            )


@dg.job(executor_def=dg.in_process_executor, description=fill_one.description)
def fill_nonce() -> None:
    fill_one()


@dg.job(executor_def=dg.in_process_executor, description=acknowledge_one.description)
def acknowledge_nonce() -> None:
    acknowledge_one()


nonce_jobs = (fill_nonce, acknowledge_nonce)
