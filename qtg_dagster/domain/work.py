"""A node that is worked on: the claim to it, all that is known of it, and what may be written about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.journal import AttemptOutcome, StepKind
from qtg_dagster.domain.plans import Plan, PlanNode
from qtg_dagster.domain.progress import Advance, NodeStates, advance_after_completion
from qtg_dagster.domain.states import REQUEST_MOVES, NodeState, RequestState

#: Moves after which the whole movement is looked at again; READY, because what never left no longer holds back FAILED.
_CONSEQUENTIAL = frozenset({NodeState.COMPLETED, NodeState.FAILED, NodeState.UNKNOWN, NodeState.READY})
NOTHING_FOLLOWS = Advance(ready=(), request_state=None)


@dataclass(frozen=True, slots=True)
class Claim:
    """One node that one runner may write to, as long as nobody claims it again."""

    node_id: str
    request_id: str
    runner_id: int
    claim_epoch: int
    node_state: NodeState


@dataclass(frozen=True, slots=True)
class RecoveryArm:
    """A share of the recovery batch: executor keys that begin with one of `lanes` and none of `other_lanes`."""

    name: str
    lanes: tuple[str, ...]
    other_lanes: tuple[str, ...] = ()


_NAMED_ARMS = (
    RecoveryArm("ccip", ("exec.ccip.",)),
    RecoveryArm("stargate", ("exec.stargate.",)),
    RecoveryArm("cex", ("exec.cex.",)),
)
#: In priority order, as the runtime reference has them.
RECOVERY_ARMS = (*_NAMED_ARMS, RecoveryArm("rest", ("",), tuple(lane for arm in _NAMED_ARMS for lane in arm.lanes)))


@dataclass(frozen=True, slots=True)
class Sibling:
    """A node of the same movement, as far as others may depend on it."""

    state: NodeState
    refs: dict[str, Any]
    artifacts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed node with its movement, its plan and its neighbours."""

    claim: Claim
    request_state: RequestState
    intent: dict[str, Any]
    input_params: dict[str, Any]
    resolved_bindings: dict[str, str]
    compiled_plan_hash: str
    approval_digest: str
    approved_at: datetime | None
    template_version: int
    plan: Plan
    node: PlanNode
    node_state: NodeState
    attempt_no: int
    provider_refs: dict[str, Any]
    looks: int  # looks at this state with this error code, the present ones included
    error_code: str | None
    facts_digest: str | None
    started_at: datetime | None  # of the first attempt
    observed_since: datetime | None  # the present attempt began, or was found to be accepted after all
    submitted_at: datetime | None
    database_now: datetime
    siblings: dict[str, Sibling]
    prepared: PreparedAction | None

    def in_state(self, state: NodeState) -> Work:
        """This work after a move of ours that the store has confirmed."""
        return replace(self, node_state=state)

    @property
    def approval_expires_at(self) -> datetime | None:
        """When nothing of it may start any more; None = an approval for good."""
        valid = self.plan.approval.valid_seconds
        return None if valid is None or self.approved_at is None else self.approved_at + timedelta(seconds=valid)

    @property
    def node_states(self) -> dict[str, NodeState]:
        return {key: sibling.state for key, sibling in self.siblings.items()}


@dataclass(frozen=True, slots=True)
class Intent:
    """What is written before a submit."""

    prepared: PreparedAction
    attempt_no: int
    idempotency_key: str
    signer_key: str | None = None
    signer_address: str | None = None
    ledger: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One node's change of state, or a look that changed nothing, with the facts that led to it."""

    to_state: NodeState
    step_kind: StepKind
    facts: Mapping[str, Any]
    provider_refs: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    error_code: str | None = None
    error_message: str | None = None
    look_after: float | None = None
    attempt_outcome: AttemptOutcome | None = None
    release_nonce: bool = False
    audited: bool = False  # a refusal that belongs into the audit trail, in the same commit
    #: Nodes of the plan whose executor can adopt, for whoever is told what may be done.
    adopting: frozenset[str] = frozenset()


def is_consequential(work: Work, move: Move) -> bool:
    """Whether a move may mean something for its movement."""
    return move.to_state in _CONSEQUENTIAL and move.to_state is not work.node_state


def consequences(work: Work, move: Move, request_state: RequestState, states: NodeStates) -> Advance:
    """What a move means for a movement that stands like this.

    A state that the movement cannot go to from where it is (it waits for a person already) is not news.
    """
    if not is_consequential(work, move):
        return NOTHING_FOLLOWS
    found = advance_after_completion(work.plan, {**states, work.node.node_key: move.to_state})
    news = found.request_state in REQUEST_MOVES[request_state]
    return Advance(ready=found.ready, request_state=found.request_state if news else None)
