"""Executor answers that several executors of the lane give, in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.redaction import redact
from qtg_dagster.lanes.cex.access import AccessRefused
from qtg_dagster.lanes.cex.reply import LookupFailed

#: Seconds until the next look when only a person can help: the record may still change.
OPERATOR_LOOK_SECONDS = 600.0
FAILED_LOOK_SECONDS = 15.0
#: Seconds until preflight asks again what passes by itself.
PASSING_SECONDS = 60.0


def refused(problem: InvalidInput) -> ExecutionResult:
    """Preflight's no, for good: the input must change."""
    return ExecutionResult(
        status=ResultStatus.REJECTED,
        error_code="PREFLIGHT_REFUSED",
        # The field comes last: what follows "api_key:" is taken for a secret, and blackened.
        error_message=f"{problem.problem} ({problem.field}). {problem.fix}",
        evidence={"field": problem.field, "problem": problem.problem, "fix": problem.fix},
    )


def not_now(code: str, message: str, *, retry_after_seconds: float) -> ExecutionResult:
    """Preflight's no, for the moment."""
    return ExecutionResult(
        status=ResultStatus.NOT_SENT,
        error_code=code,
        error_message=message,
        retry_after_seconds=retry_after_seconds,
        evidence={"problem": message},
    )


def not_let_in(refusal: AccessRefused) -> ExecutionResult:
    """Preflight's no to a venue that lets us not in: for good where the inventory or the key must change."""
    invalid = refusal.invalid
    if invalid is not None:
        return refused(invalid)
    wait = refusal.retry_after_seconds or PASSING_SECONDS
    return not_now(refusal.remedy.code, f"{refusal.problem}. {refusal.remedy.fix}", retry_after_seconds=wait)


def lookup_failed(status: ResultStatus, problem: LookupFailed) -> ExecutionResult:
    """A look that brought nothing; the venue's own wish for a pause is obeyed."""
    return ExecutionResult(
        status=status,
        error_code="LOOKUP_FAILED",
        error_message=str(problem),
        retry_after_seconds=problem.retry_after_seconds or FAILED_LOOK_SECONDS,
        evidence={"lookup": str(problem)},
    )


def for_operator(code: str, message: str, evidence: Mapping[str, Any]) -> ExecutionResult:
    """UNKNOWN that no further look will settle by itself."""
    return ExecutionResult(
        status=ResultStatus.UNKNOWN,
        error_code=code,
        error_message=message,
        retry_after_seconds=OPERATOR_LOOK_SECONDS,
        evidence={"operator": message, **redact(evidence)},
    )


def observing(
    evidence: Mapping[str, Any], *, code: str | None = None, message: str | None = None, after: float | None = None
) -> ExecutionResult:
    """Still in progress; a code marks what people should look at."""
    return ExecutionResult(
        status=ResultStatus.OBSERVING,
        error_code=code,
        error_message=message,
        retry_after_seconds=after,
        evidence=redact(evidence),
    )
