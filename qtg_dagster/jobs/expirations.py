"""Calling off what nobody decided in time, as a job: two sweepers, each contained from the other's failure."""

import dagster as dg

from assets.windows import mark_in_pass
from qtg_dagster.domain.proposals import TEMPLATE_PROPOSAL_EXPIRATION
from qtg_dagster.engine import expiry
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.treasury import proposals
from qtg_dagster.upkeep.cycles import backing_off
from qtg_dagster.upkeep.expirations import Sweep, sweep
from resources import PlatformResource

#: Tag of a run that the sensor launched: which sweepers had something to do. By hand, a sweeper does not back off.
DUE_TAG = "qtg/due"


async def _sweep(context: dg.OpExecutionContext, platform: PlatformResource, worker: str, work: Sweep) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            by_sensor = DUE_TAG in context.run.tags
            pause = await backing_off(parts.database, parts.settings.network_class, worker) if by_sensor else ""
            if pause:
                context.add_output_metadata({"expired": 0, "not run because": pause})
                return
            try:
                expired = await sweep(parts.engine, worker, work)
            except Exception:
                mark_in_pass(context)
                raise
    context.add_output_metadata({"expired": expired})


@dg.op(out=dg.Out(dg.Nothing), description="Call off movements that were not approved in time.")
async def expire_pending_requests(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    await _sweep(context, platform, expiry.EXPIRATION_CHECKER, expiry.expire_pending_requests)


@dg.op(out=dg.Out(dg.Nothing), description="End template proposals that were not decided on in time.")
async def expire_template_proposals(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    await _sweep(context, platform, TEMPLATE_PROPOSAL_EXPIRATION, proposals.expire_template_proposals)


@dg.job(
    executor_def=dg.in_process_executor,
    description="Call off movements and template proposals that nobody decided on in time.",
)
def expire() -> None:
    expire_pending_requests()
    expire_template_proposals()
