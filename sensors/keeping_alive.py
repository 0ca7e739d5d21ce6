"""When a drain has to be launched: decided from the backlog, the slot and the runs that are alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from qtg_dagster.store.slots import SlotState

#: How long before the present drain's budget ends its successor is launched, to wait on the slot's lock.
SUCCESSOR_LEAD_SECONDS = 5.0
#: A run that has not taken its slot by then will not: its process died, or never started.
STARTING_SECONDS = 60.0
_MOST_RUNS = 2


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A drain's run that Dagster does not know to have ended."""

    run_id: str
    launched_at: datetime
    cancelling: bool = False
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to launch, and why or why not."""

    launch: bool
    reason: str


def judge(
    waiting: int,
    slot: SlotState,
    runs: Sequence[LiveRun],
    budget_seconds: float,
    now: datetime,
    *,
    standby: bool = False,
    what: str = "node",
) -> Verdict:
    """Launch when work waits and no live drain will take it, or when the drain at work nears its end.

    On `standby` its successor is launched at once: it waits on the slot's lock, and is there should the drain die.
    """
    names = ", ".join(run.run_id[:8] for run in runs) or "none"
    wait = f"{waiting} {what} waits" if waiting == 1 else f"{waiting} {what}s wait"
    seen = f"{wait}; runs alive: {names}"
    if waiting == 0:
        return Verdict(False, f"no work; runs alive: {names}")
    fresh = [run for run in runs if now - run.launched_at < timedelta(seconds=STARTING_SECONDS)]
    if slot.waiters:
        return Verdict(False, f"{seen}; a drain works and its successor waits")
    if len(fresh) >= _MOST_RUNS or (len(runs) >= _MOST_RUNS and slot.held):
        return Verdict(False, f"{seen}; that is enough")
    if not slot.held:
        starting = [run for run in fresh if not run.cancelling]
        if starting:
            return Verdict(False, f"{seen}; run {starting[0].run_id[:8]} is starting")
        return Verdict(True, f"{seen}; no drain holds the slot")
    age = slot.youngest_age_seconds or 0.0
    if runs and all(run.cancelling for run in runs):
        return Verdict(True, f"{seen}; the drain at work is being ended")
    if age >= budget_seconds - SUCCESSOR_LEAD_SECONDS:
        return Verdict(True, f"{seen}; the drain at work is {age:.0f} s old, this is its successor")
    if standby:
        return Verdict(True, f"{seen}; a drain of {age:.0f} s works, this one stands by")
    return Verdict(False, f"{seen}; a drain of {age:.0f} s works")
