"""Reading executors' answers: which move each one is, and what to do with an answer the contract does not allow."""

from __future__ import annotations

from typing import Any

from qtg_dagster.domain.canonical import json_problem
from qtg_dagster.domain.contract import ExecutionResult, ResultStatus
from qtg_dagster.domain.journal import AttemptOutcome, StepKind
from qtg_dagster.domain.observation import clamp_hint, observe_delay
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.work import Move, Work
from qtg_dagster.executors.contract import Executor, submit_grace

S = ResultStatus

_AFTER_SUBMIT: dict[ResultStatus, tuple[NodeState, AttemptOutcome]] = {
    S.NOT_SENT: (NodeState.READY, AttemptOutcome.NOT_SENT),
    S.REJECTED: (NodeState.FAILED, AttemptOutcome.REJECTED),
    S.ACCEPTED: (NodeState.SUBMITTED, AttemptOutcome.ACCEPTED),
    S.COMPLETED: (NodeState.COMPLETED, AttemptOutcome.COMPLETED),
    S.UNKNOWN: (NodeState.UNKNOWN, AttemptOutcome.UNKNOWN),
}
_AFTER_OBSERVE: dict[ResultStatus, tuple[NodeState, AttemptOutcome | None]] = {
    S.ACCEPTED: (NodeState.SUBMITTED, None),
    S.OBSERVING: (NodeState.OBSERVING, None),
    S.COMPLETED: (NodeState.COMPLETED, AttemptOutcome.COMPLETED),
    S.FAILED: (NodeState.FAILED, AttemptOutcome.FAILED),
    S.UNKNOWN: (NodeState.UNKNOWN, AttemptOutcome.UNKNOWN),
}
_AFTER_RECOVER: dict[ResultStatus, tuple[NodeState, AttemptOutcome]] = {
    S.ACCEPTED: (NodeState.SUBMITTED, AttemptOutcome.ACCEPTED),
    S.OBSERVING: (NodeState.SUBMITTED, AttemptOutcome.ACCEPTED),
    S.COMPLETED: (NodeState.COMPLETED, AttemptOutcome.COMPLETED),
    S.FAILED: (NodeState.FAILED, AttemptOutcome.FAILED),
    S.UNKNOWN: (NodeState.UNKNOWN, AttemptOutcome.UNKNOWN),
}
_NEED_EVIDENCE = frozenset({S.REJECTED, S.COMPLETED, S.FAILED, S.NOT_SENT})

#: The look itself failed; nothing is known about the node that was not known before.
LOOK_FAILED = "LOOK_FAILED"
#: Seconds before an attempt that provably never left is made again, by attempt; the last one repeats.
_RESEND_DELAYS = (1.0, 5.0, 15.0, 60.0)


def move_for_submit(work: Work, result: ExecutionResult, executor: Executor) -> Move:
    """The move that a submit's answer means. An answer outside the contract is UNKNOWN: the call did leave."""
    problem = _violation("submit", result, _AFTER_SUBMIT.keys())
    state, outcome = _AFTER_SUBMIT[S.UNKNOWN if problem else result.status]
    look_after: float | None = None
    if state is NodeState.UNKNOWN:
        hint = result.retry_after_seconds
        look_after = submit_grace(executor) if hint is None else clamp_hint(hint)
    elif state is NodeState.READY:
        look_after = _RESEND_DELAYS[min(work.attempt_no, len(_RESEND_DELAYS) - 1)]
    elif state is NodeState.SUBMITTED:
        look_after = clamp_hint(result.retry_after_seconds or 0.0)
    return _move(StepKind.OUTCOME, result, state, outcome, problem=problem, look_after=look_after)


def move_for_observe(work: Work, result: ExecutionResult) -> Move:
    """The move that a look means. An answer outside the contract changes nothing but is on record."""
    problem = _violation("observe", result, _AFTER_OBSERVE.keys())
    delay = observe_delay(work.node.action_type, result.retry_after_seconds)
    if problem:
        state, outcome = work.node_state, None
    elif result.status is S.ACCEPTED and work.node_state is NodeState.SUBMITTED:
        state, outcome = NodeState.SUBMITTED, None
    else:
        state, outcome = _AFTER_OBSERVE[result.status]
    return _move(StepKind.OBSERVED, result, state, outcome, problem=problem, look_after=delay)


def move_for_recover(result: ExecutionResult, *, interval_seconds: float) -> Move:
    """The move that a recovery's answer means; everything short of proof leaves the node UNKNOWN."""
    problem = _violation("recover", result, _AFTER_RECOVER.keys())
    state, outcome = _AFTER_RECOVER[S.UNKNOWN if problem else result.status]
    look_after = 0.0 if state is NodeState.SUBMITTED else interval_seconds
    if result.retry_after_seconds is not None and state is NodeState.UNKNOWN:
        look_after = clamp_hint(result.retry_after_seconds)
    return _move(StepKind.RECOVERED, result, state, outcome, problem=problem, look_after=look_after)


def move_for_error(work: Work, step_kind: StepKind, error: Exception, *, look_after: float) -> Move:
    """A look that failed in itself: the node stays where it is, and the error is on record."""
    message = redact_text(f"{type(error).__name__}: {error}")
    state = NodeState.UNKNOWN if work.node_state is NodeState.SUBMITTING else work.node_state
    return Move(
        to_state=state,
        step_kind=step_kind,
        facts={"error": message},
        error_code=LOOK_FAILED,
        error_message=message,
        look_after=look_after,
        attempt_outcome=AttemptOutcome.UNKNOWN if state is NodeState.UNKNOWN else None,
    )


def _violation(method: str, result: ExecutionResult, allowed: Any) -> str | None:
    if result.status not in allowed:
        return f"{method} answered {result.status}, which the contract does not allow"
    if result.status in _NEED_EVIDENCE and not result.evidence:
        return f"{method} answered {result.status} without evidence"
    unstorable = json_problem([result.provider_refs, result.artifacts])
    return (
        f"{method} answered {result.status} with refs or artifacts that cannot be stored: {unstorable}"
        if unstorable
        else None
    )


def _move(
    step_kind: StepKind,
    result: ExecutionResult,
    state: NodeState,
    outcome: AttemptOutcome | None,
    *,
    problem: str | None,
    look_after: float | None,
) -> Move:
    message = problem or result.error_message
    facts = {
        "status": result.status,
        "evidence": result.evidence,
        "provider_refs": result.provider_refs,
        "error_code": result.error_code,
        "error_message": message,
    }
    return Move(
        to_state=state,
        step_kind=step_kind,
        facts={key: value for key, value in facts.items() if value not in (None, {}, "")},
        provider_refs={} if json_problem(result.provider_refs) else result.provider_refs,
        artifacts={} if json_problem(result.artifacts) else result.artifacts,
        error_code="CONTRACT_VIOLATION" if problem else result.error_code,
        error_message=redact_text(message) if message else None,
        look_after=look_after,
        attempt_outcome=outcome,
    )
