"""Workers that are late, dead, or fail again and again."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.workers import WorkerState
from qtg_dagster.upkeep.alerts.looking import Look, Source
from qtg_dagster.upkeep.workers import WorkerStanding, read_survey

#: Errors in a row that are worth a message: one that fails once and goes on is none.
ERRORS_IN_A_ROW = 5


async def find(look: Look) -> list[Condition]:
    """Each worker that somebody should look after; a halt of them all is an alert of its own."""
    survey = await read_survey(look.database, look.settings)
    return [found for one in survey.workers if (found := condition(one)) is not None]


def condition(one: WorkerStanding) -> Condition | None:
    """The alert of one worker."""
    if one.state in (WorkerState.DEAD, WorkerState.OVERDUE):
        severity = Severity.CRITICAL if one.spec.core else Severity.WARNING
    elif one.state is WorkerState.FAILING and one.heartbeat.consecutive_errors >= ERRORS_IN_A_ROW:
        severity = Severity.WARNING
    else:
        return None
    beat = one.heartbeat
    evidence = {"state": one.state.value, "group": "core" if one.spec.core else "sidecar"}
    if beat.last_success_at is not None:
        evidence["last success"] = f"{beat.last_success_at:%Y-%m-%d %H:%M:%S} UTC"
    if one.state is WorkerState.FAILING and beat.last_error:
        evidence["last error"] = beat.last_error
    return Condition(
        AlertKind.WORKER_UNWELL,
        one.spec.name,
        severity,
        f"worker {one.spec.name} is {one.state}",
        evidence,
        (),
        ("qtg workers", "qtg doctor"),
        "workers",
    )


SOURCE = Source("workers", frozenset({AlertKind.WORKER_UNWELL}), find)
