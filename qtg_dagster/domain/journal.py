"""What the journal's steps are called."""

from __future__ import annotations

from enum import StrEnum


class StepKind(StrEnum):
    """One line of a node's history; the facts beside it say what was asked and what came back."""

    READIED = "readied"  # its predecessors are settled, or an operator asked for another attempt
    REFUSED = "refused"  # stopped before any effect: drift, unresolved reference, preflight, signer
    DEFERRED = "deferred"  # not now: the executor asked to be called again
    INTENT = "intent"  # everything needed to repeat or find the action is durable; nothing sent yet
    OUTCOME = "outcome"  # what submit answered
    OBSERVED = "observed"
    RECOVERED = "recovered"
    TIMED_OUT = "timed_out"  # observed for longer than the plan allows, or not approved in time
    FENCED = "fenced"  # a late write by a runner that no longer owned the node
    OPERATOR = "operator"  # a person's decision


class AttemptOutcome(StrEnum):
    """What became of one attempt, as far as it is proven."""

    NOT_SENT = "NOT_SENT"
    REJECTED = "REJECTED"
    ACCEPTED = "ACCEPTED"
    UNKNOWN = "UNKNOWN"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class CallbackEvent(StrEnum):
    """What a movement's owner is told of."""

    REQUEST_STATE_CHANGED = "request_state_changed"
    FRONTIER_ADVANCED = "frontier_advanced"
    REQUEST_ATTENTION = "request_attention"
