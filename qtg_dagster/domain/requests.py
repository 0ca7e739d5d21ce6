"""Movements as people decide on them: ordered, locked, moved as a whole, and given what exists already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.domain.work import Claim

#: Why a creation that met another under its idempotency key cannot say what stands.
UNSEEN = (
    "another transaction has just stored a movement under this idempotency_key, and yours began too early to see it; "
    "roll back and create again"
)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan version and the ids its rows have."""

    plan_version_id: int
    version: int
    plan: Plan
    node_ids: dict[str, int]


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who publishes a template version, for the audit."""

    actor: str
    network_class: str


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A validated movement, ready to be stored."""

    network_class: str
    stored: StoredPlan
    intent: Mapping[str, Any]
    input_params: Mapping[str, Any]
    resolved_bindings: Mapping[str, str]
    serialization_keys: Mapping[str, str | None]
    scopes: Mapping[str, tuple[str, ...]]
    compiled_plan_hash: str
    approval_digest: str
    body_hash: str
    requested_by: str
    reason: str
    ttl_seconds: int
    idempotency_key: str | None = None
    callback_url: str | None = None


@dataclass(frozen=True, slots=True)
class InsertedRequest:
    """What the store gave a new movement."""

    request_id: str
    expires_at: datetime
    #: Executors and signers among its bindings that are down or not known to be well -> their last known health.
    unwell: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingRequest:
    """The movement that an idempotency key belongs to; its rows may be gone and only its tombstone stand."""

    request_id: str
    body_hash: str
    template_version: int
    compiled_plan_hash: str
    approval_digest: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class LockedRequest:
    """A movement under its row lock; nobody else moves it until the transaction ends."""

    request_id: str
    network_class: str
    request_state: RequestState
    intent: dict[str, Any]
    input_params: dict[str, Any]
    resolved_bindings: dict[str, str]
    compiled_plan_hash: str
    approval_digest: str
    expires_at: datetime | None
    expired: bool
    callback_url: str | None
    requested_by: str
    stored: StoredPlan
    node_states: dict[str, NodeState]
    #: node key -> (attempt, outcome so far) of attempts that are not proven to have had no effect
    open_attempts: dict[str, list[tuple[int, str]]]
    approved_by: tuple[str, ...]  # who has approved so far, in order
    down: tuple[str, ...]  # executors and signers among its bindings whose last known health is `down`


@dataclass(frozen=True, slots=True)
class NodeMove:
    """One step of one node of a locked movement, by a person's decision or as its consequence."""

    node_key: str
    to_state: NodeState
    step_kind: StepKind
    facts: Mapping[str, Any]
    actor: str | None = None
    refs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's deed on a movement, and all that is written with it."""

    actor: str
    action: str
    details: Mapping[str, Any]  # for the audit
    moves: Sequence[NodeMove] = ()
    state: RequestState | None = None
    frontier: Sequence[str] | None = None
    approval: str | None = None  # `approved` or `rejected`, recorded with exactly what was decided on
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """How far a movement's approval has come."""

    approved_by: tuple[str, ...]
    required: int

    @property
    def complete(self) -> bool:
        return len(self.approved_by) >= self.required

    def __str__(self) -> str:
        """For people: who has approved, and how many are missing."""
        so_far = f"approved by {', '.join(self.approved_by)}"
        missing = self.required - len(self.approved_by)
        return so_far if self.complete else f"{so_far}; {missing} more of {self.required} must approve"


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as it stands, before or under its lock."""

    node_id: str
    node_state: NodeState
    attempt_no: int
    claim_epoch: int
    being_worked: bool  # claimed by a runner that lives

    def claim(self, request_id: str) -> Claim:
        """To read its work with; nobody's claim, so nothing can be written under it."""
        return Claim(self.node_id, request_id, 0, self.claim_epoch, self.node_state)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What is attached to which attempt, and who says so."""

    node_id: str
    prepared: PreparedAction
    idempotency_key: str
    refs: Mapping[str, Any]
    facts: Mapping[str, Any]
    actor: str
    ledger: str | None
