"""Catching up after downtime: windows that nobody served are made up for, a bounded number a cycle, oldest first.

Only for work that belongs to its window whenever it is done, such as the summary of an hour. A reading of how things
stand now cannot be made up for, and a pass that converges needs no more than its next turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.cycles import missed_windows
from qtg_dagster.upkeep.cycles import PassResult, cycle_key, serve_cycle

log = structlog.get_logger("qtg.upkeep")

#: Missed windows that one cycle makes up for: a long outage drains in visible steps, not in one unbounded pass.
MOST_MISSED = 24

#: One pass over the window that starts at this time.
WindowPass = Callable[[datetime], Awaitable[PassResult]]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Keys of the windows served here, the cycle's own among them, and how many missed ones are left for later."""

    served: tuple[str, ...]
    left: int
    oldest_left: str | None

    def metadata(self) -> dict[str, Any]:
        """For the page of the run."""
        told: dict[str, Any] = {
            "windows": ", ".join(self.served) or "served by another run",
            "missed and left": self.left,
        }
        return told | ({"oldest left": self.oldest_left} if self.oldest_left else {})


async def serve_and_catch_up(
    engine: Engine, worker: str, window: datetime, interval_seconds: int, work: WindowPass
) -> CaughtUp:
    """Serve a window, then the oldest of those before it that were missed since the worker's first.

    Any number of daemons may do so at once: each window is served by one of them. An error of `work` is recorded as the
    worker's and raised; what is left then is found by the next cycle.
    """
    served = [cycle_key(window)] if await _serve(engine, worker, window, work) else []
    missed = await missed_windows(
        engine.database,
        engine.settings.network_class,
        worker,
        before=window,
        interval_seconds=interval_seconds,
        most=MOST_MISSED,
    )
    served += [cycle_key(start) for start in missed.oldest if await _serve(engine, worker, start, work)]
    left = missed.total - len(missed.oldest)
    oldest_left = cycle_key(missed.next_after) if missed.next_after else None
    if missed.total:
        log.warning("windows were missed", worker=worker, made_up_for=len(missed.oldest), left=left, next=oldest_left)
    return CaughtUp(tuple(served), left, oldest_left)


async def _serve(engine: Engine, worker: str, window: datetime, work: WindowPass) -> bool:
    async def of_this_window() -> PassResult:
        return await work(window)

    return await serve_cycle(engine, worker, cycle_key(window), of_this_window)
