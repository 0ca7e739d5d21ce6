"""Upkeep as jobs."""

import dagster as dg

from assets.windows import serve
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.upkeep.core_group import look_after_core
from qtg_dagster.upkeep.cycles import PassResult
from qtg_dagster.upkeep.nonce_reaper import reap_stale_nonces
from qtg_dagster.upkeep.workers import NONCE_REAPER
from resources import PlatformResource


@dg.op(out=dg.Out(dg.Nothing), description="Give back nonces that were reserved for something that was never sent.")
async def release_stale_nonces(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    released: list[int] = []
    with shown_in_the_ui():
        async with platform.open() as parts:
            group = await look_after_core(parts.database, parts.settings, noticed_by=NONCE_REAPER)
            if not group.runs:
                context.add_output_metadata({"released": 0, "not run because": group.explain()})
                return

            async def reap() -> PassResult:
                released.append(await reap_stale_nonces(parts.engine))
                return PassResult(released[-1])

            await serve(context, parts.engine, NONCE_REAPER, parts.settings.evm_nonce_reaper_interval_seconds, reap)
    context.add_output_metadata({"released": sum(released)})


@dg.job(executor_def=dg.in_process_executor, description=release_stale_nonces.description)
def reap_evm_nonces() -> None:
    release_stale_nonces()
