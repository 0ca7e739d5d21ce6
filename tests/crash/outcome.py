"""What one case brought."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.crash.bench import Bench
from tests.crash.boundaries import Cell, Lane
from tests.crash.oracles import judge

if TYPE_CHECKING:
    from tests.crash.disturbances import Disturbance


@dataclass
class Outcome:
    """Counts, timings in seconds, and everything that was wrong."""

    case: Cell | Disturbance
    seed: int
    hits: int = 0
    kills: int = 0
    once: int = 0
    twice: int = 0
    never: int = 0
    with_people: int = 0
    called_off: int = 0
    restarts: list[float] = field(default_factory=list)
    progress: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


@asynccontextmanager
async def judged(bench: Bench, outcome: Outcome, lane: Lane) -> AsyncIterator[None]:
    """Around what happens in a case: begins on an empty bench, judges at the end; lateness is a violation as well."""
    started = time.monotonic()
    try:
        yield
        verdict = await judge(bench, lane)
        outcome.violations += verdict.violations
        outcome.once, outcome.twice, outcome.never = verdict.once, verdict.twice, verdict.never
        outcome.with_people, outcome.called_off = verdict.with_people, verdict.called_off
        if not outcome.hits:
            outcome.violations.append("the boundary was never reached")
    except TimeoutError as late:
        outcome.violations.append(f"liveness: {late}")
    outcome.seconds = time.monotonic() - started
