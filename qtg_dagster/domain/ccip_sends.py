"""CCIP sends: a record of each one from its intent on, and what an old one without an end means.

The database guard, the diagram and the tests are made from `SEND_MOVES`: change a move here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qtg_dagster.domain.errors import IllegalMove
from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.states import NodeState


class SendState(StrEnum):
    """How far a send is known to have come."""

    INTENT = "INTENT"  # about to be sent, or sent; nobody has seen it yet
    SENT = "SENT"  # the source chain has it, under a message id
    STRANDED = "STRANDED"  # old, and nothing recorded says what became of it
    RESOLVED = "RESOLVED"  # what became of it is proven by a step of the journal


class Resolution(StrEnum):
    """What is proven of a send; its delivery at the other end is for the nodes that watch it."""

    TOOK_EFFECT = "took_effect"
    WITHOUT_EFFECT = "without_effect"


S = SendState

SEND_MOVES: dict[SendState, frozenset[SendState]] = {
    S.INTENT: frozenset({S.SENT, S.STRANDED, S.RESOLVED}),
    S.SENT: frozenset({S.STRANDED, S.RESOLVED}),
    # Whoever finds the message, or its end, takes it back.
    S.STRANDED: frozenset({S.SENT, S.RESOLVED}),
    S.RESOLVED: frozenset(),
}
INITIAL_SEND_STATE = S.INTENT

_WITHOUT_EFFECT = frozenset({AttemptOutcome.NOT_SENT, AttemptOutcome.REJECTED, AttemptOutcome.FAILED})
_MAX_SELECTOR = 2**64 - 1


def check_send_move(old: SendState, new: SendState) -> None:
    """Raise `IllegalMove` unless a send may go from `old` to `new`."""
    if new not in SEND_MOVES[old]:
        raise IllegalMove(f"a CCIP send cannot go from {old} to {new}")


def is_selector(number: int) -> bool:
    """Whether it can be a chain selector of CCIP, an unsigned 64-bit number."""
    return 0 <= number <= _MAX_SELECTOR


@dataclass(frozen=True, slots=True)
class OldSend:
    """A send that is older than it should be, with all that the database knows of it."""

    state: SendState
    node_state: NodeState
    being_worked: bool  # claimed by a runner that lives
    outcome: AttemptOutcome | None  # of its own attempt; None = none is recorded
    evidence_step_id: int | None  # the step that proves the outcome


@dataclass(frozen=True, slots=True)
class SendVerdict:
    """Where an old send goes, and what proves it."""

    to_state: SendState
    resolution: Resolution | None = None
    evidence_step_id: int | None = None


def judge(send: OldSend) -> SendVerdict | None:
    """What an old send has come to; None when it stays as it is.

    Only a proven outcome of its own attempt ends it: silence says nothing about a message that may be on its way.
    """
    if send.state is S.RESOLVED:
        return None
    if send.outcome is not None and send.evidence_step_id is not None:
        if send.outcome in _WITHOUT_EFFECT:
            return SendVerdict(S.RESOLVED, Resolution.WITHOUT_EFFECT, send.evidence_step_id)
        if send.outcome is AttemptOutcome.COMPLETED:
            return SendVerdict(S.RESOLVED, Resolution.TOOK_EFFECT, send.evidence_step_id)
    if send.state is S.STRANDED or send.being_worked:
        return None
    return SendVerdict(S.STRANDED)
