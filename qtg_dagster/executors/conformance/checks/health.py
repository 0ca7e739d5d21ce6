"""Is it alive? Asked without any work order."""

from __future__ import annotations

import asyncio
import inspect
import time

from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken, Exempt


async def takes_no_context(stage: Stage) -> str:
    """By its signature."""
    parameters = list(inspect.signature(stage.bench.executor.health).parameters)
    if parameters:
        raise Broken(f"health takes {', '.join(parameters)}")
    return "health()"


async def answers_in_time(stage: Stage) -> str:
    """Well and silent."""
    case = await stage.case()
    well, took = await _timed(stage, "well behaved")
    await case.turn(Knob.SILENT)
    silent, silent_took = await _timed(stage, "silent")
    return f"{well} in {took:.1f} s; silent: {silent} in {silent_took:.1f} s"


async def tells_when_away(stage: Stage) -> str:
    """Any report but a healthy one; an exception where that is declared."""
    case = await stage.case()
    if await _ask(stage) is None:
        raise Exempt("health has nothing to reach")
    await case.turn(Knob.AWAY)
    try:
        report = await _ask(stage)
    except Exception as error:
        if stage.bench.declared.health_raises:
            return f"raises {type(error).__name__}, as declared"
        raise Broken(f"with the dependency away health raised {type(error).__name__}: {error}") from error
    if report is None or report.health_state is HealthState.HEALTHY:
        raise Broken(f"with the dependency away health says {_words(report)}")
    return f"with the dependency away: {_words(report)}"


async def _timed(stage: Stage, how: str) -> tuple[str, float]:
    limit = stage.limits.health_seconds
    started = time.monotonic()
    try:
        words = _words(await asyncio.wait_for(_ask(stage), limit))
    except TimeoutError as late:
        if time.monotonic() - started < limit:  # its own: it answered, in its way
            words = "raises TimeoutError"
        else:
            raise Broken(f"with the dependency {how} health gave no answer within {limit} s") from late
    except Exception as error:  # noqa: BLE001 - whether it may raise is another clause
        words = f"raises {type(error).__name__}"
    return words, time.monotonic() - started


async def _ask(stage: Stage) -> HealthReport | None:
    return await stage.bench.executor.health()


def _words(report: HealthReport | None) -> str:
    return "nothing to reach" if report is None else f"{report.health_state} ({report.detail})"
