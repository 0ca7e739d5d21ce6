"""The states of nodes, requests and template proposals, and the only moves between them.

The database trigger, the diagram in the docs and the rules of the model-based tests are made from
`NODE_MOVES`, `REQUEST_MOVES` and `PROPOSAL_MOVES`: change a move here and nowhere else.
"""

from __future__ import annotations

from enum import StrEnum

from qtg_dagster.domain.errors import IllegalMove


class NodeState(StrEnum):
    """Where one action of a movement stands."""

    BLOCKED = "BLOCKED"  # waits for its predecessors
    READY = "READY"  # may be dispatched; nothing has left yet
    SUBMITTING = "SUBMITTING"  # the intent is durable; the call may or may not have left
    SUBMITTED = "SUBMITTED"  # the provider accepted and gave a reference
    OBSERVING = "OBSERVING"  # in progress at the provider
    UNKNOWN = "UNKNOWN"  # it may have taken effect; nobody has proof either way
    COMPLETED = "COMPLETED"  # it took effect, and the evidence row proves it
    FAILED = "FAILED"  # it did not take effect, and the evidence row proves it
    SKIPPED = "SKIPPED"  # an operator took a manual step out
    CANCELLED = "CANCELLED"  # the movement was cancelled before this node began


class RequestState(StrEnum):
    """Where a movement stands as a whole."""

    PENDING_APPROVAL = "PENDING_APPROVAL"
    APPROVED = "APPROVED"
    EXECUTING = "EXECUTING"
    WAITING_MANUAL_ACTION = "WAITING_MANUAL_ACTION"
    MANUAL_INTERVENTION = "MANUAL_INTERVENTION"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class ProposalState(StrEnum):
    """Where a proposed template version stands."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"  # and published: it points at its version
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"


N, R = NodeState, RequestState

NODE_MOVES: dict[NodeState, frozenset[NodeState]] = {
    N.BLOCKED: frozenset({N.READY, N.SKIPPED, N.CANCELLED}),
    # READY completes directly only for manual nodes: the operator's word is the evidence.
    N.READY: frozenset({N.SUBMITTING, N.COMPLETED, N.FAILED, N.SKIPPED, N.CANCELLED}),
    # Back to READY only when the call provably never left.
    N.SUBMITTING: frozenset({N.READY, N.SUBMITTED, N.COMPLETED, N.FAILED, N.UNKNOWN}),
    N.SUBMITTED: frozenset({N.OBSERVING, N.COMPLETED, N.FAILED, N.UNKNOWN}),
    # Back to SUBMITTED when a chain reorganised a receipt away.
    N.OBSERVING: frozenset({N.SUBMITTED, N.COMPLETED, N.FAILED, N.UNKNOWN}),
    N.UNKNOWN: frozenset({N.SUBMITTED, N.COMPLETED, N.FAILED}),
    N.FAILED: frozenset({N.READY}),
    N.COMPLETED: frozenset(),
    N.SKIPPED: frozenset(),
    N.CANCELLED: frozenset(),
}

REQUEST_MOVES: dict[RequestState, frozenset[RequestState]] = {
    R.PENDING_APPROVAL: frozenset({R.APPROVED, R.REJECTED, R.EXPIRED, R.CANCELLED}),
    R.APPROVED: frozenset({R.EXECUTING, R.WAITING_MANUAL_ACTION, R.FAILED, R.CANCELLED}),
    R.EXECUTING: frozenset({R.WAITING_MANUAL_ACTION, R.MANUAL_INTERVENTION, R.COMPLETED, R.FAILED, R.CANCELLED}),
    R.WAITING_MANUAL_ACTION: frozenset({R.EXECUTING, R.MANUAL_INTERVENTION, R.COMPLETED, R.FAILED, R.CANCELLED}),
    R.MANUAL_INTERVENTION: frozenset({R.EXECUTING, R.COMPLETED, R.FAILED, R.CANCELLED}),
    R.FAILED: frozenset({R.EXECUTING, R.CANCELLED}),
    R.COMPLETED: frozenset(),
    R.REJECTED: frozenset(),
    R.EXPIRED: frozenset(),
    R.CANCELLED: frozenset(),
}

PROPOSAL_MOVES: dict[ProposalState, frozenset[ProposalState]] = {
    ProposalState.PENDING: frozenset({ProposalState.APPROVED, ProposalState.REJECTED, ProposalState.EXPIRED}),
    ProposalState.APPROVED: frozenset(),
    ProposalState.REJECTED: frozenset(),
    ProposalState.EXPIRED: frozenset(),
}

INITIAL_NODE_STATE = N.BLOCKED
INITIAL_REQUEST_STATE = R.PENDING_APPROVAL
INITIAL_PROPOSAL_STATE = ProposalState.PENDING

#: A node in one of these no longer holds its successors back.
SETTLED_NODE_STATES = frozenset({N.COMPLETED, N.SKIPPED})
#: The provider may be working on it right now.
IN_FLIGHT_NODE_STATES = frozenset({N.SUBMITTING, N.SUBMITTED, N.OBSERVING})
#: It may have taken effect, or still may.
UNSETTLED_NODE_STATES = IN_FLIGHT_NODE_STATES | {N.UNKNOWN}
#: States that need an evidence row: the promise of the whole system.
EVIDENCED_NODE_STATES = frozenset({N.COMPLETED, N.FAILED})
#: Requests that a drain may start nodes of.
DISPATCHABLE_REQUEST_STATES = frozenset({R.APPROVED, R.EXECUTING})
#: Requests for which nothing more will happen by itself or by an operator's retry.
FINAL_REQUEST_STATES = frozenset({R.COMPLETED, R.REJECTED, R.EXPIRED, R.CANCELLED})


def check_node_move(old: NodeState, new: NodeState) -> None:
    """Raise `IllegalMove` unless a node may go from `old` to `new`."""
    if new not in NODE_MOVES[old]:
        raise IllegalMove(f"a node cannot go from {old} to {new}")


def check_request_move(old: RequestState, new: RequestState) -> None:
    """Raise `IllegalMove` unless a request may go from `old` to `new`."""
    if new not in REQUEST_MOVES[old]:
        raise IllegalMove(f"a movement request cannot go from {old} to {new}")


def check_proposal_move(old: ProposalState, new: ProposalState) -> None:
    """Raise `IllegalMove` unless a template proposal may go from `old` to `new`."""
    if new not in PROPOSAL_MOVES[old]:
        raise IllegalMove(f"a template proposal cannot go from {old} to {new}")
