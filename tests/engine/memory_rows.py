"""What the store in memory keeps, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.journal import AttemptOutcome, StepKind
from qtg_dagster.domain.plans import NodeKind
from qtg_dagster.domain.requests import StoredPlan
from qtg_dagster.domain.states import INITIAL_NODE_STATE, INITIAL_REQUEST_STATE, NodeState, RequestState


class TestClock:
    """A clock that stands still until it is moved."""

    __test__ = False

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@dataclass
class Request:
    """A movement's row."""

    request_id: str
    network_class: str
    stored: StoredPlan
    intent: dict[str, Any]
    input_params: dict[str, Any]
    resolved_bindings: dict[str, str]
    compiled_plan_hash: str
    approval_digest: str
    requested_by: str
    expires_at: datetime
    created_at: datetime
    place: int  # in the order of creation
    idempotency_key: str | None = None
    body_hash: str = ""
    callback_url: str | None = None
    approved_at: datetime | None = None
    request_state: RequestState = INITIAL_REQUEST_STATE
    frontier: tuple[str, ...] = ()


@dataclass
class Node:
    """A node's row."""

    node_id: str
    request_id: str
    node_key: str
    node_kind: NodeKind
    executor_key: str | None
    serialization_key: str | None
    updated_at: datetime
    node_state: NodeState = INITIAL_NODE_STATE
    state_version: int = 1
    attempt_no: int = 0
    provider_refs: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, Any] = field(default_factory=dict)
    looks: int = 0
    error_code: str | None = None
    error_message: str | None = None
    facts_digest: str | None = None
    next_look_at: datetime | None = None
    runner_id: int | None = None
    claim_epoch: int = 0
    in_flight_key: str | None = None
    evidence: Step | None = None
    started_at: datetime | None = None
    submitted_at: datetime | None = None


@dataclass
class Attempt:
    """One attempt of a node."""

    idempotency_key: str
    prepared: PreparedAction
    intended_at: datetime
    outcome: AttemptOutcome | None = None
    outcome_step: Step | None = None


@dataclass(frozen=True)
class Step:
    """A line of the journal."""

    node_id: str
    attempt_no: int
    step_kind: StepKind
    from_state: NodeState | None
    to_state: NodeState | None
    facts: Mapping[str, Any]
    recorded_at: datetime
    runner_id: int | None = None
    claim_epoch: int | None = None
    actor: str | None = None


@dataclass(frozen=True)
class Deed:
    """What a person did."""

    actor: str
    action: str
    request_id: str
    details: Mapping[str, Any]
    approval: str | None = None


def observed_since(attempt: Attempt | None) -> datetime | None:
    if attempt is None:
        return None
    step = attempt.outcome_step
    proven_later = step is not None and step.step_kind in (StepKind.RECOVERED, StepKind.OPERATOR)
    return max(attempt.intended_at, step.recorded_at) if step is not None and proven_later else attempt.intended_at
