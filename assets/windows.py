"""Serving the windows of a scheduled run, or one pass for a run that a person launched."""

from __future__ import annotations

from datetime import datetime

import dagster as dg

from assets.keys import WINDOW_TAG
from qtg_dagster.engine.parts import Engine
from qtg_dagster.upkeep.cycles import Pass, serve_cycle, serve_windows, windows_of


async def serve(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    engine: Engine,
    worker: str,
    interval_seconds: int,
    work: Pass,
) -> list[str]:
    """Keys of the windows that this run served; none when others were faster."""
    scheduled = context.run.tags.get(WINDOW_TAG)
    if scheduled is None:
        key = f"by hand in run {context.run.run_id}"
        return [key] if await serve_cycle(engine, worker, key, work) else []
    windows = windows_of(datetime.fromisoformat(scheduled), interval_seconds)
    served = await serve_windows(engine, worker, windows, work)
    context.log.info(f"{worker}: served {', '.join(served) or 'nothing, others were faster'}")
    return served
