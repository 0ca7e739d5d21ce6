"""The hot drains as jobs: one op each, which works nodes until there is a reason to end."""

from collections.abc import Mapping

import dagster as dg

from qtg_dagster.engine.drain import WORKER_NAMES, Drain, DrainKind
from qtg_dagster.jobs.fence import RunFence
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.core_group import CoreWatch
from resources import PlatformResource

#: Tag of a drain's runs: which slot they take.
SLOT_TAG = "qtg/drain"


def slot_tag(kind: DrainKind, slot: int) -> str:
    """The tag's value: the kind, and after it the slot when it is not the first."""
    return f"{kind.value}/{slot}" if slot else kind.value


def slot_of(tags: Mapping[str, str]) -> int:
    """The slot that a run's tags name; the first for a run that was launched by hand."""
    place = tags.get(SLOT_TAG, "").partition("/")[2]
    return int(place) if place.isdecimal() else 0


async def _drain(context: dg.OpExecutionContext, platform: PlatformResource, kind: DrainKind) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            drain = Drain(parts.engine, kind, slot=slot_of(context.run.tags), dagster_run_id=context.run_id)
            with RunFence(context.instance, context.run_id, drain.stop) as fence:
                async with CoreWatch(parts.database, parts.settings, WORKER_NAMES[kind], drain.stop):
                    report = await drain.run()
    context.log.info(f"{kind}: {report.nodes} nodes, {report.errors} errors, ended: {report.ended_because}")
    if fence.interrupted:
        raise dg.DagsterExecutionInterruptedError(report.ended_because)
    context.add_output_metadata(
        {
            "nodes": report.nodes,
            "errors": report.errors,
            "ended because": report.ended_because,
            "runner": report.runner_id,
            "movements touched": len(report.settled_requests),
        }
    )


@dg.op(out=dg.Out(dg.Nothing), description="Take READY nodes through preflight, prepare, sign and submit.")
async def dispatch_ready_nodes(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    await _drain(context, platform, DrainKind.DISPATCH)


@dg.op(out=dg.Out(dg.Nothing), description="Look at what became of SUBMITTED and OBSERVING nodes.")
async def observe_active_nodes(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    await _drain(context, platform, DrainKind.OBSERVE)


@dg.op(out=dg.Out(dg.Nothing), description="Find out what became of nodes whose answer was lost.")
async def recover_unknown_nodes(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    await _drain(context, platform, DrainKind.RECOVER)


_OPS = {
    DrainKind.DISPATCH: dispatch_ready_nodes,
    DrainKind.OBSERVE: observe_active_nodes,
    DrainKind.RECOVER: recover_unknown_nodes,
}


def _drain_job(kind: DrainKind, op: dg.OpDefinition) -> dg.JobDefinition:
    @dg.job(
        name=kind.value,
        executor_def=dg.in_process_executor,
        tags={SLOT_TAG: kind.value},
        description=f"{op.description} Kept alive by its sensor while there is work; any number may run.",
    )
    def drain_job() -> None:
        op()

    return drain_job


drain_jobs: dict[DrainKind, dg.JobDefinition] = {kind: _drain_job(kind, op) for kind, op in _OPS.items()}
