"""The delivery drain as a job: callbacks, audit entries and notifications, until there is a reason to end."""

import dagster as dg

from qtg_dagster.jobs.drains import SLOT_TAG
from qtg_dagster.jobs.fence import RunFence
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.delivery import DELIVER
from resources import DeliveryResource


@dg.op(out=dg.Out(dg.Nothing), description="Send callbacks and notifications, and promote audit entries.")
async def deliver_pending_outbox(context: dg.OpExecutionContext, delivery: DeliveryResource) -> None:
    with shown_in_the_ui():
        async with delivery.open(context.run_id) as drain:
            with RunFence(context.instance, context.run_id, drain.stop) as fence:
                report = await drain.run()
    if fence.interrupted:
        raise dg.DagsterExecutionInterruptedError(report.ended_because)
    context.add_output_metadata(
        {
            "ended because": report.ended_because,
            "runner": report.runner_id,
            **report.items,
            **{f"{worker} errors": many for worker, many in report.errors.items()},
        }
    )


@dg.job(
    name=DELIVER,
    executor_def=dg.in_process_executor,
    tags={SLOT_TAG: DELIVER},
    description=f"{deliver_pending_outbox.description} Kept alive by its sensor while there is anything to tell.",
)
def deliver() -> None:
    deliver_pending_outbox()
