"""What is kept for how long, and what a pass that deletes has to say for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from qtg_dagster.domain.errors import InvalidInput

#: Nothing younger is ever deleted: the database's functions refuse a shorter window, whoever calls them.
SHORTEST_DAYS = 1
_LONGEST_DAYS = 36500
KEEP = "keep"


class Kind(StrEnum):
    """What is deleted as one, in the order of a pass: children before parents."""

    CALLBACKS = "callbacks"
    AUDIT_OUTBOX = "audit_outbox"
    MOVEMENTS = "movements"
    BALANCE_SNAPSHOTS = "balance_snapshots"
    BREAKER_STARTS = "breaker_starts"
    BREAKERS = "breakers"
    ALERT_DELIVERIES = "alert_deliveries"
    ALERTS = "alerts"
    CORE_GROUP_EVENTS = "core_group_events"
    RUNNERS = "runners"
    CORE_DEATHS = "core_deaths"
    CYCLES = "cycles"
    VELOCITY_SPENDS = "velocity_spends"
    DAGSTER_RUNS = "dagster_runs"
    DAGSTER_CHECKS = "dagster_checks"
    DAGSTER_EVENTS = "dagster_events"
    DAGSTER_TICKS = "dagster_ticks"

    @property
    def of_dagster(self) -> bool:
        return self.value.startswith("dagster_")

    @property
    def function(self) -> str:
        """The database function that deletes a batch of ours."""
        return f"retain_{self.value}"


OURS = tuple(kind for kind in Kind if not kind.of_dagster)
DAGSTERS = tuple(kind for kind in Kind if kind.of_dagster)


def windows(days: int, exceptions: str) -> dict[Kind, timedelta | None]:
    """How long each kind is kept; None is for good. `exceptions` reads `cycles=7,movements=keep`.

    Raises `InvalidInput`.
    """
    found: dict[Kind, timedelta | None] = dict.fromkeys(Kind, timedelta(days=days))
    for part in filter(None, (piece.strip() for piece in exceptions.split(","))):
        name, _, given = (piece.strip() for piece in part.partition("="))
        if name not in set(Kind):
            raise InvalidInput("retention_windows", f"{name!r} is nothing that is deleted", f"Use {', '.join(Kind)}.")
        if given == KEEP:
            found[Kind(name)] = None
        elif given.isascii() and given.isdigit() and SHORTEST_DAYS <= int(given) <= _LONGEST_DAYS:
            found[Kind(name)] = timedelta(days=int(given))
        else:
            raise InvalidInput(
                "retention_windows",
                f"{name} is kept for {given!r}",
                f"Give whole days from {SHORTEST_DAYS} to {_LONGEST_DAYS}, or {KEEP}.",
            )
    return found


class Standing(StrEnum):
    """What a pass came to."""

    KEPT = "kept"  # by the settings, for good
    QUIET = "quiet"  # nothing was past its window
    CAUGHT_UP = "caught up"  # all that could go is gone
    BEHIND = "behind"  # it deletes, and some remains for the next pass
    STALLED = "stalled"  # some could go, and nothing went
    FAILING = "failing"  # a batch failed
    ABSENT = "absent"  # there is no such storage here


@dataclass
class KindReport:
    """What a pass did about one kind."""

    kind: Kind
    window: timedelta | None
    deleted: int = 0  # of the kind itself
    rows: dict[str, int] = field(default_factory=dict)  # table -> rows deleted, where a kind spans several
    held: int = 0  # past their window, and not settled
    locked: int = 0  # somebody else worked on them
    remaining: int = 0  # could go, and have not: at least that many
    failed: int = 0  # those that could not be deleted, or batches of them
    problem: str = ""
    seconds: float = 0.0
    oldest: datetime | None = None  # the oldest past its window that is still there
    absent: bool = False

    @property
    def standing(self) -> Standing:
        if self.absent:
            return Standing.ABSENT
        if self.window is None:
            return Standing.KEPT
        if self.failed:
            return Standing.FAILING
        if self.remaining:
            return Standing.BEHIND if self.deleted else Standing.STALLED
        return Standing.CAUGHT_UP if self.deleted else Standing.QUIET

    def note(self) -> dict[str, object]:
        """For the record of the cycle: only what is not nothing."""
        said: dict[str, object] = {
            "deleted": self.deleted,
            "held": self.held,
            "remaining": self.remaining,
            "failed": self.failed,
            "problem": self.problem,
        }
        return {"standing": self.standing.value, **{name: value for name, value in said.items() if value}}


def overall(reports: Sequence[KindReport]) -> Standing:
    """The worst of them."""
    order = (Standing.FAILING, Standing.STALLED, Standing.BEHIND, Standing.CAUGHT_UP)
    standings = {report.standing for report in reports}
    return next((each for each in order if each in standings), Standing.QUIET)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What stays of a movement whose rows were deleted."""

    request_id: str
    network_class: str
    idempotency_key: str | None
    body_hash: str
    template_key: str
    template_version: int
    compiled_plan_hash: str
    approval_digest: str
    request_state: str
    requested_by: str
    approved_by: tuple[str, ...]
    rejected_by: tuple[str, ...]
    nodes: Mapping[str, Mapping[str, str]]  # node id -> key and state
    created_at: datetime
    approved_at: datetime | None
    finished_at: datetime
    expires_at: datetime | None
    deleted_at: datetime
