"""Cadences: cron down to the minute, and windows inside one minute's run below that.

A window is named by its start, and the database lets it be served once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from qtg_dagster.domain.clock import Clock
from qtg_dagster.engine.parts import Engine
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.cycles import begin_cycle, finish_cycle
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.store.life_signs import pause_left, read_heartbeats

log = structlog.get_logger("qtg.upkeep")

_MINUTE = 60
#: Two ticks of one rhythm may lie this much closer together than the rhythm says.
_TICK_JITTER_SECONDS = 2.0
_DAY_HOURS = 24
_DAY_MINUTES = 1440


@dataclass(frozen=True, slots=True)
class PassResult:
    """What one pass of a worker did: a count, and what is worth noting."""

    items: int
    notes: Mapping[str, Any] = field(default_factory=dict)


Pass = Callable[[], Awaitable[PassResult]]


def cron_of(interval_seconds: int) -> str | list[str]:
    """The cron line (or lines) whose ticks start each minute that has windows of this cadence."""
    if interval_seconds <= _MINUTE:
        return "* * * * *"
    minutes = interval_seconds // _MINUTE
    if minutes < _MINUTE and _MINUTE % minutes == 0:
        return f"*/{minutes} * * * *"
    hours, rest = divmod(minutes, _MINUTE)
    if rest == 0 and hours < _DAY_HOURS and _DAY_HOURS % hours == 0:
        return f"0 */{hours} * * *"
    starts = range(0, _DAY_MINUTES, minutes)
    lines = [f"{start % _MINUTE} {start // _MINUTE} * * *" for start in starts]
    return lines[0] if len(lines) == 1 else lines


def windows_of(scheduled: datetime, interval_seconds: int) -> tuple[datetime, ...]:
    """Starts of the windows that the run scheduled for this time serves."""
    start = scheduled.astimezone(UTC)
    steps = max(1, _MINUTE // interval_seconds)
    return tuple(start + timedelta(seconds=step * interval_seconds) for step in range(steps))


def missed_between(last_sign_of_life: datetime | None, window: datetime, interval_seconds: int) -> int:
    """How many windows began after a worker's last sign of life and before this one: nobody served them."""
    if last_sign_of_life is None:
        return 0
    silent = (window - last_sign_of_life).total_seconds()
    return max(0, math.ceil(silent / interval_seconds) - 1)


def cycle_key(window: datetime) -> str:
    """The window's stable name."""
    return window.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def serve_windows(engine: Engine, worker: str, windows: Sequence[datetime], work: Pass) -> list[str]:
    """Wait for each window and serve it unless someone has; returns the keys of those served here.

    A window whose successor has already begun is left out: late readings of the same thing tell nothing. So is one
    that comes while the worker backs off. An error of `work` is recorded as the worker's and raised.
    """
    served: list[str] = []
    for window, successor in zip(windows, [*windows[1:], None], strict=True):
        if successor is not None and successor <= engine.clock.now():
            continue
        await _until(engine.clock, window)
        pause = await backing_off(engine.database, engine.settings.network_class, worker)
        if pause:
            log.warning("window left out", worker=worker, window=cycle_key(window), because=pause)
            continue
        if await serve_cycle(engine, worker, cycle_key(window), work):
            served.append(cycle_key(window))
    return served


async def missed_windows_of(engine: Engine, worker: str, window: datetime, interval_seconds: int) -> int:
    """Windows before this one that a worker missed since it was last heard of; told, for nobody else will.

    A pass that converges makes up for all of them at once; work that belongs to its window is for `catching_up`.
    """
    beats = await read_heartbeats(engine.database, engine.settings.network_class)
    beat = beats.get(worker)
    missed = missed_between(beat.last_attempt_at if beat else None, window, interval_seconds)
    if missed:
        log.warning("windows were missed", worker=worker, missed=missed, since=str(beat and beat.last_attempt_at))
    return missed


async def backing_off(database: Database, network_class: str, worker: str, ahead_seconds: float = 0) -> str:
    """Why a worker's pass is not due yet after so many errors in a row; empty when it is, or will be by then."""
    left, errors = await pause_left(database, network_class, worker)
    if left <= ahead_seconds + _TICK_JITTER_SECONDS:
        return ""
    return f"{worker} failed {errors} times in a row; its next pass is due in {left:.0f} s"


async def serve_cycle(engine: Engine, worker: str, key: str, work: Pass) -> bool:
    """Run one pass under a cycle key, with its heartbeat; False when the key was taken before."""
    database, network_class = engine.database, engine.settings.network_class
    if not await begin_cycle(database, network_class, worker, key):
        return False
    fault_point(FaultPoint.CYCLE_INSERT)
    started = time.monotonic()
    try:
        done = await work()
    except Exception as error:
        await Heartbeats(database).beat(network_class, worker, duration_ms=_since(started), items=0, error=error)
        raise
    await finish_cycle(database, network_class, worker, key, {"items": done.items, **done.notes})
    await Heartbeats(database).beat(network_class, worker, duration_ms=_since(started), items=done.items)
    return True


async def _until(clock: Clock, moment: datetime) -> None:
    wait = (moment - clock.now()).total_seconds()
    if wait > 0:
        await asyncio.sleep(wait)


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000
