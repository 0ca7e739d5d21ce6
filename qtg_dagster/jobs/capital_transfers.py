"""Capital transfers as jobs: requested and decided on from the launchpad, followed up by a schedule."""

import dagster as dg
from pydantic import Field

from assets.windows import serve
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.store.capital_transfers import Transfer, read_transfer
from qtg_dagster.treasury.capital_transfers import TransferOrder
from qtg_dagster.treasury.capital_transfers import request_capital_transfer as request
from qtg_dagster.treasury.transfer_decisions import cancel_capital_transfer as cancel
from qtg_dagster.treasury.transfer_decisions import close_capital_transfer as close
from qtg_dagster.treasury.transfer_decisions import retry_capital_transfer as retry
from qtg_dagster.treasury.transfer_followup import follow_up_pending_capital_transfers
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.workers import CAPITAL_FOLLOWUP
from resources import PlatformResource


class NewTransfer(dg.Config):
    """What is to be where; its route names the template, and the movement waits for approval."""

    source: str = Field(description="a venue or an account of the inventory, e.g. venue_a")
    destination: str = Field(description="a venue or an account of the inventory, e.g. treasury")
    asset: str = Field(description="the asset's key in the inventory, e.g. USDC")
    amount: str = Field(description="plain decimal, e.g. 250000")
    requested_by: str = Field(description="who asks; may not approve the movement alone")
    reason: str = Field(default="", description="why")
    idempotency_key: str | None = Field(default=None, description="the same key and request give the same transfer")
    wanted_by: str | None = Field(default=None, description="e.g. 2026-03-01T12:00:00Z; later, people are told")


class TransferDecision(dg.Config):
    """A decision on one transfer."""

    transfer_id: str = Field(description="the transfer's id, as request_capital_transfer shows it")
    actor: str = Field(min_length=1, description="who decides; goes into the audit trail")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


@dg.op(name="request_transfer", out=dg.Out(dg.Nothing), description="Ask for an amount to be moved by its route.")
async def request_one(context: dg.OpExecutionContext, config: NewTransfer, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        order = TransferOrder.read(config.model_dump())
        async with platform.open() as parts:
            receipt = await request(parts.engine, order)
            async with parts.database.transaction() as tx:
                found = await read_transfer(tx, parts.settings.network_class, receipt.transfer_id)
    context.add_output_metadata({"created": receipt.created, **_shown(found)})


@dg.op(name="retry_transfer", out=dg.Out(dg.Nothing), description="Have a stopped transfer moved by another movement.")
async def retry_one(context: dg.OpExecutionContext, config: TransferDecision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            found = await retry(parts.engine, config.transfer_id, actor=config.actor, reason=config.reason)
    context.add_output_metadata(_shown(found))


@dg.op(name="cancel_transfer", out=dg.Out(dg.Nothing), description="Call a transfer off of which nothing has moved.")
async def cancel_one(context: dg.OpExecutionContext, config: TransferDecision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            found = await cancel(parts.engine, config.transfer_id, actor=config.actor, reason=config.reason)
    context.add_output_metadata(_shown(found))


@dg.op(
    name="close_transfer",
    out=dg.Out(dg.Nothing),
    description="End a transfer whose movement ended after it may have moved money; say where that is now.",
)
async def close_one(context: dg.OpExecutionContext, config: TransferDecision, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            found = await close(parts.engine, config.transfer_id, actor=config.actor, reason=config.reason)
    context.add_output_metadata(_shown(found))


@dg.op(
    name="follow_up_pending_capital_transfers",
    out=dg.Out(dg.Nothing),
    description="Settle capital transfers with their movements, begin what waits, and show people what does not go on.",
)
async def follow_up_all(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    changes: dict[str, int] = {}
    with shown_in_the_ui():
        async with platform.open() as parts:

            async def follow() -> PassResult:
                done = await follow_up_pending_capital_transfers(parts.engine)
                changes.update(done.changes)
                return PassResult(done.changed, {"looked at": done.looked_at, **done.changes})

            interval = parts.settings.capital_transfer_followup_interval_seconds
            await serve(context, parts.engine, CAPITAL_FOLLOWUP, interval, follow)
    context.add_output_metadata({"changed": sum(changes.values()), **changes})


def _shown(transfer: Transfer) -> dict[str, str | int]:
    return {
        "transfer id": transfer.transfer_id,
        "transfer": str(transfer),
        "transfer state": transfer.state.value,
        "attempt": transfer.attempt_no,
        "movement": transfer.movement_id or "none yet",
        **({"needs attention": transfer.attention} if transfer.attention else {}),
    }


@dg.job(executor_def=dg.in_process_executor, description=request_one.description)
def request_capital_transfer() -> None:
    request_one()


@dg.job(executor_def=dg.in_process_executor, description=retry_one.description)
def retry_capital_transfer() -> None:
    retry_one()


@dg.job(executor_def=dg.in_process_executor, description=cancel_one.description)
def cancel_capital_transfer() -> None:
    cancel_one()


@dg.job(executor_def=dg.in_process_executor, description=close_one.description)
def close_capital_transfer() -> None:
    close_one()


@dg.job(executor_def=dg.in_process_executor, description=follow_up_all.description)
def follow_up_capital_transfers() -> None:
    follow_up_all()


transfer_jobs = (
    request_capital_transfer,
    retry_capital_transfer,
    cancel_capital_transfer,
    close_capital_transfer,
    follow_up_capital_transfers,
)
