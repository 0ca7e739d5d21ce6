"""Serving the windows of a scheduled run, or one pass for a run that a person launched."""

from __future__ import annotations

from datetime import datetime

import dagster as dg
import structlog

from assets.keys import WINDOW_TAG
from qtg_dagster.engine.parts import Engine
from qtg_dagster.upkeep.cycles import (
    Pass,
    PassResult,
    missed_windows_of,
    serve_cycle,
    serve_windows,
    windows_of,
)

log = structlog.get_logger("qtg.upkeep")

#: Tag of a failed run that is accounted for: its pass failed, which its heartbeat tells, or its death was noticed.
FAILURE_TAG = "qtg/failure"


async def serve(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    engine: Engine,
    worker: str,
    interval_seconds: int,
    work: Pass,
) -> list[str]:
    """Keys of the windows that this run served; none when others were faster.

    A failing pass is the heartbeat's to tell and marks the run; a run that fails without the mark died.
    """
    failed = False

    async def marked() -> PassResult:
        nonlocal failed
        try:
            return await work()
        except Exception:
            failed = True
            raise

    try:
        return await _serve(context, engine, worker, interval_seconds, marked)
    except Exception:
        if failed:
            mark_in_pass(context)
        raise


async def _serve(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    engine: Engine,
    worker: str,
    interval_seconds: int,
    work: Pass,
) -> list[str]:
    scheduled = context.run.tags.get(WINDOW_TAG)
    if scheduled is None:
        key = f"by hand in run {context.run.run_id}"
        return [key] if await serve_cycle(engine, worker, key, work) else []
    windows = windows_of(datetime.fromisoformat(scheduled), interval_seconds)
    missed = await missed_windows_of(engine, worker, windows[0], interval_seconds)
    if missed:
        context.log.warning(f"{worker}: {missed} windows before this one were missed")

    async def with_the_missed() -> PassResult:
        done = await work()
        return PassResult(done.items, {**done.notes, "missed_windows": missed}) if missed else done

    served = await serve_windows(engine, worker, windows, with_the_missed)
    context.log.info(f"{worker}: served {', '.join(served) or 'nothing: others were faster, or it backs off'}")
    return served


def mark_in_pass(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> None:
    """Mark the run as one that failed in its pass, which the worker's heartbeat tells: no death."""
    try:
        context.instance.add_run_tags(context.run.run_id, {FAILURE_TAG: "in its pass"})
    except Exception:
        log.warning("failed run not marked", run=context.run.run_id, exc_info=True)
