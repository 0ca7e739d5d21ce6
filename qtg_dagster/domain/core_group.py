"""The core group: the workers that fall together and start again together, and when they may not.

A *death* is a core worker that ended outside its own loop. Deaths that belong together are one *fall* of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_RESTART_SECONDS: float = 60


class CoreEvent(StrEnum):
    """What happened to the group as a whole."""

    RESTART = "restart"
    HALT = "halt"
    RESUME = "resume"


class CoreStanding(StrEnum):
    """How the group stands at a moment."""

    RUNNING = "running"
    RESTARTING = "restarting"
    HALTED = "halted"


class DeathCause(StrEnum):
    """How a core worker came to its end; a restart of the database itself is noted, and is no fall."""

    VANISHED = "vanished"
    CRASHED = "crashed"
    RUN_FAILED = "run_failed"
    DATABASE_RESTARTED = "database_restarted"


@dataclass(frozen=True, slots=True)
class CorePolicy:
    """How many falls within which time halt the group, and how long deaths of one fall may come apart."""

    deaths_before_halt: int
    window_seconds: float
    settle_seconds: float
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What the group does about a fall."""

    event: CoreEvent
    backoff_seconds: float


@dataclass(frozen=True, slots=True)
class CoreWord:
    """One entry of the group's book."""

    id: int
    event: CoreEvent
    occurred_at: datetime
    restart_at: datetime | None
    worker: str | None
    falls: int
    actor: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class CoreGroup:
    """The group's last entry and how it stands."""

    standing: CoreStanding
    last: CoreWord | None
    now: datetime

    @property
    def runs(self) -> bool:
        return self.standing is CoreStanding.RUNNING

    def explain(self) -> str:
        """Why it stands as it does, and the way out."""
        if self.last is None:
            return "the core group runs"
        if self.standing is CoreStanding.HALTED:
            return (
                f"core group halted since {self.last.occurred_at:%Y-%m-%d %H:%M:%S} UTC: {self.last.reason}; "
                "find out why, then `qtg core resume --by NAME --reason TEXT` or the job resume_core"
            )
        if self.standing is CoreStanding.RESTARTING and self.last.restart_at is not None:
            left = (self.last.restart_at - self.now).total_seconds()
            return f"core group starts again in {left:.0f} s: {self.last.reason}"
        return f"the core group runs; last entry: {self.last.event} at {self.last.occurred_at:%Y-%m-%d %H:%M:%S} UTC"


def answer_to_fall(falls: int, deaths_before_halt: int) -> Answer:
    """What follows on the n-th fall within the window, that one included.

    | fall | 1 | 2 | 3 | 4 | ... | deaths_before_halt |
    | --- | --- | --- | --- | --- | --- | --- |
    | pause, s | 0 | 1 | 3 | 7 | min(2^(n-1) - 1, 60) | halted until an operator resumes |

    The first pause is nothing, so that one killed process costs no more than its own start.
    """
    if falls >= deaths_before_halt:
        return Answer(CoreEvent.HALT, 0.0)
    return Answer(CoreEvent.RESTART, min(2.0 ** min(max(falls - 1, 0), 16) - 1, MAX_RESTART_SECONDS))


def belongs_to_fall(began_at: datetime, fell_at: datetime, now: datetime, settle_seconds: float) -> bool:
    """Whether a death noticed now is part of an earlier fall: of that generation, and while it is still ending."""
    return began_at <= fell_at and (now - fell_at).total_seconds() <= settle_seconds


def standing_after(last: CoreWord | None, now: datetime) -> CoreStanding:
    """How the group stands after its last entry."""
    if last is None or last.event is CoreEvent.RESUME:
        return CoreStanding.RUNNING
    if last.event is CoreEvent.HALT:
        return CoreStanding.HALTED
    waits = last.restart_at is not None and now < last.restart_at
    return CoreStanding.RESTARTING if waits else CoreStanding.RUNNING


def must_end(word: CoreWord, worker: str) -> bool:
    """Whether this entry ends a worker that was alive before it.

    The one that took over from the dead is the restart itself and goes on, as long as there is no pause to keep.
    """
    if word.event is CoreEvent.RESUME:
        return False
    pauses = word.restart_at is None or word.restart_at > word.occurred_at
    return word.event is CoreEvent.HALT or pauses or word.worker != worker
