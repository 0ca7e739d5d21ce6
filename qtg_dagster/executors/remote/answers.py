"""Judging what came of a call to an executor service: a document that may be acted on, or a fault that says why not."""

from __future__ import annotations

from typing import TypeVar

from qtg_dagster.domain.contract import ExecutionResult
from qtg_dagster.domain.errors import InvalidInput, RemoteFault
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.calling import Answered, NeverSent, Outcome, Unanswered
from qtg_dagster.executors.remote.documents import (
    MAY_ANSWER,
    NEEDS_EVIDENCE,
    ErrorAnswer,
    ErrorDetail,
    Method,
    ResultAnswer,
)
from qtg_dagster.executors.remote.reading import Unreadable, read_document

D = TypeVar("D", bound=Frozen)
INVALID_INPUT = "INVALID_INPUT"
NEVER_SENT = "NEVER_SENT"


def answered(outcome: Outcome) -> Answered:
    """The service's 2xx answer; raises `RemoteFault` for all else, and `InvalidInput` when it is that, well told."""
    if isinstance(outcome, NeverSent):
        raise RemoteFault(NEVER_SENT, outcome.reason, outcome.evidence, nothing_done=True)
    if isinstance(outcome, Unanswered):
        raise RemoteFault(outcome.code, outcome.reason, outcome.evidence)
    if outcome.status >= 400:
        _raise_error(outcome)
    return outcome


def document(answer: Answered, kind: type[D]) -> D:
    """The document of a 200; raises `RemoteFault`."""
    if answer.status != 200:
        raise RemoteFault("WRONG_STATUS", f"HTTP {answer.status} has no {kind.__name__}", answer.evidence)
    try:
        return read_document(answer.body, kind)
    except Unreadable as problem:
        raise RemoteFault(problem.code, str(problem), answer.evidence) from None


def result(answer: Answered, method: Method) -> ExecutionResult:
    """The result, one that the method may answer, with evidence where it decides anything; raises `RemoteFault`."""
    found = document(answer, ResultAnswer).result
    if found.status not in MAY_ANSWER[method]:
        raise RemoteFault("WRONG_RESULT", f"{method} may not answer {found.status}", answer.evidence)
    if method is not Method.PREFLIGHT and found.status in NEEDS_EVIDENCE and not found.evidence:
        raise RemoteFault("NO_EVIDENCE", f"{found.status} came without evidence", answer.evidence)
    return found


def _raise_error(answer: Answered) -> None:
    try:
        error = read_document(answer.body, ErrorAnswer).error
    except Unreadable as problem:
        said = f"HTTP {answer.status} without a well-formed error document: {problem}"
        raise RemoteFault(problem.code, said, answer.evidence) from None
    proven = answer.status < 500 and error.nothing_done
    if proven and error.code == INVALID_INPUT:
        raise _invalid(error)
    evidence = {**answer.evidence, "error_code": error.code[:64]}
    message = f"HTTP {answer.status}: {redact_text(error.message)}"
    raise RemoteFault(error.code[:64], message, evidence, nothing_done=proven)


def _invalid(error: ErrorDetail) -> InvalidInput:
    return InvalidInput(error.field or "node_config", redact_text(error.message), error.fix or "See the service's log.")
