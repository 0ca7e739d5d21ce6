"""Upkeep as jobs: the reapers of the core group."""

from collections.abc import Awaitable, Callable

import dagster as dg

from assets.windows import serve
from qtg_dagster.composition import Platform
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.ccip_reaper import reap_stranded_sends
from qtg_dagster.upkeep.core_group import look_after_core
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.nonce_reaper import ReapedNonces, look_after_nonces
from qtg_dagster.upkeep.workers import CCIP_REAPER, NONCE_REAPER
from resources import PlatformResource


@dg.op(out=dg.Out(dg.Nothing), description="Give back nonces that were never signed; look after those nobody will use.")
async def release_stale_nonces(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    passes: list[ReapedNonces] = []

    async def reap(parts: Platform) -> PassResult:
        passes.append(await look_after_nonces(parts.engine, parts.nonce_chain))
        return PassResult(passes[-1].items, passes[-1].notes())

    halted = await _serve_unless_halted(context, platform, NONCE_REAPER, reap)
    told: dict[str, int | str] = {
        "released": sum(each.released for each in passes),
        "settled": sum(each.settled for each in passes),
        "filled": sum(each.filled for each in passes),
        **halted,
    }
    if passes and passes[-1].dead:
        told["dead: see qtg nonce list"] = ", ".join(passes[-1].dead)
    if passes and passes[-1].problems:
        told["problems"] = "; ".join(passes[-1].problems)
    context.add_output_metadata(told)


@dg.op(
    out=dg.Out(dg.Nothing),
    description="Find CCIP sends without a known end: close what is proven, show people the rest.",
)
async def judge_old_sends(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    moved: list[int] = []

    async def reap(parts: Platform) -> PassResult:
        moved.append(await reap_stranded_sends(parts.engine))
        return PassResult(moved[-1])

    halted = await _serve_unless_halted(context, platform, CCIP_REAPER, reap)
    context.add_output_metadata({"moved": sum(moved), **halted})


async def _serve_unless_halted(
    context: dg.OpExecutionContext,
    platform: PlatformResource,
    worker: str,
    reap: Callable[[Platform], Awaitable[PassResult]],
) -> dict[str, str]:
    """The passes of a reaper; when the core group stands still, none, and why."""
    with shown_in_the_ui():
        async with platform.open() as parts:
            group = await look_after_core(parts.database, parts.settings, noticed_by=worker)
            if not group.runs:
                return {"not run because": group.explain()}
            interval = getattr(parts.settings, f"{worker}_interval_seconds")
            await serve(context, parts.engine, worker, interval, lambda: reap(parts))
    return {}


@dg.job(executor_def=dg.in_process_executor, description=release_stale_nonces.description)
def reap_evm_nonces() -> None:
    release_stale_nonces()


@dg.job(executor_def=dg.in_process_executor, description=judge_old_sends.description)
def reap_ccip_stranded() -> None:
    judge_old_sends()


reaper_jobs = (reap_evm_nonces, reap_ccip_stranded)
