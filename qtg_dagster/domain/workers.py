"""What runners say of themselves, and what their signs of life say: no work, late, failing and dead are different."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

#: Intervals that may pass without a sign of life, and what a loaded machine may add.
MISSED_INTERVALS = 3
SLACK_SECONDS = 30.0


class WorkerState(StrEnum):
    """How a worker does."""

    NEVER_RAN = "never_ran"
    WORKING = "working"
    IDLE = "idle"
    OVERDUE = "overdue"
    FAILING = "failing"
    DEAD = "dead"
    HALTED = "halted"
    OFF = "off"


#: States that somebody should do something about.
ALARMING = frozenset({WorkerState.OVERDUE, WorkerState.FAILING, WorkerState.DEAD, WorkerState.HALTED})


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last pass of a worker, and the last that succeeded."""

    worker: str
    last_attempt_at: datetime | None = None
    last_success_at: datetime | None = None
    last_outcome: str | None = None
    last_duration_ms: float | None = None
    last_items: int | None = None
    consecutive_errors: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class RunnerIdentity:
    """What a runner says of itself when it registers."""

    kind: str
    network_class: str
    dagster_run_id: str | None = None
    slot: int = 0  # which of the places for runners of its kind it takes


class Claimant(Protocol):
    """Whoever may claim nodes."""

    @property
    def runner_id(self) -> int: ...

    @property
    def identity(self) -> RunnerIdentity: ...


@dataclass(frozen=True, slots=True)
class Backlog:
    """Nodes that wait for each kind of drain, due now or within the horizon."""

    dispatch: int
    observe: int
    recover: int

    def of(self, kind: str) -> int:
        return int(getattr(self, kind))


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a heartbeat alone does not tell.

    `alive` is None for a worker that has no process between its passes. `waiting` counts the nodes that wait for it,
    and is None for a worker whose rhythm is its own. `waiting_long` counts those that have waited for longer than a
    process takes to start, and is None where that is not known: then all may have.
    """

    on: bool = True
    halted: bool = False
    alive: bool | None = None
    waiting: int | None = None
    waiting_long: int | None = None


def patience(interval_seconds: float) -> float:
    """How long a worker of that rhythm may be silent."""
    return interval_seconds * MISSED_INTERVALS + SLACK_SECONDS


def classify(heartbeat: Heartbeat, interval_seconds: float, around: Circumstances, now: datetime) -> WorkerState:
    """The first that holds:

    | state | when |
    | --- | --- |
    | off | switched off by its flag |
    | halted | it belongs to the core group, and that stands still |
    | dead | no process, work has waited for it, and it has been silent too long |
    | failing | its last pass failed |
    | never ran | no pass yet |
    | idle | it has no process because nothing waits or work only just came, or its last pass found nothing |
    | overdue | silent for more than three intervals and half a minute |
    | working | its last pass did something |
    """
    if not around.on:
        return WorkerState.OFF
    if around.halted:
        return WorkerState.HALTED
    silent = heartbeat.last_attempt_at is None or (
        (now - heartbeat.last_attempt_at).total_seconds() > patience(interval_seconds)
    )
    waited = around.waiting if around.waiting_long is None else around.waiting_long
    if around.alive is False and waited and silent and heartbeat.last_attempt_at is not None:
        return WorkerState.DEAD
    if heartbeat.consecutive_errors > 0:
        return WorkerState.FAILING
    if heartbeat.last_attempt_at is None:
        return WorkerState.NEVER_RAN
    if around.alive is False and (silent or not around.waiting):
        return WorkerState.IDLE
    if silent:
        return WorkerState.OVERDUE
    return WorkerState.WORKING if heartbeat.last_items else WorkerState.IDLE
