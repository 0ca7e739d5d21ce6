"""Upkeep as jobs."""

import dagster as dg

from assets.windows import serve
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.core_group import look_after_core
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.nonce_reaper import ReapedNonces, look_after_nonces
from qtg_dagster.upkeep.workers import NONCE_REAPER
from resources import PlatformResource


@dg.op(out=dg.Out(dg.Nothing), description="Give back nonces that were never signed; look after those nobody will use.")
async def release_stale_nonces(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    passes: list[ReapedNonces] = []
    with shown_in_the_ui():
        async with platform.open() as parts:
            group = await look_after_core(parts.database, parts.settings, noticed_by=NONCE_REAPER)
            if not group.runs:
                context.add_output_metadata({"released": 0, "not run because": group.explain()})
                return

            async def reap() -> PassResult:
                passes.append(await look_after_nonces(parts.engine, parts.nonce_chain))
                return PassResult(passes[-1].items, passes[-1].notes())

            await serve(context, parts.engine, NONCE_REAPER, parts.settings.evm_nonce_reaper_interval_seconds, reap)
    told: dict[str, int | str] = {
        "released": sum(each.released for each in passes),
        "settled": sum(each.settled for each in passes),
        "filled": sum(each.filled for each in passes),
    }
    if passes and passes[-1].dead:
        told["dead: see qtg nonce list"] = ", ".join(passes[-1].dead)
    if passes and passes[-1].problems:
        told["problems"] = "; ".join(passes[-1].problems)
    context.add_output_metadata(told)


@dg.job(executor_def=dg.in_process_executor, description=release_stale_nonces.description)
def reap_evm_nonces() -> None:
    release_stale_nonces()
