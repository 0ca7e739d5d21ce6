"""Capital transfers: what is to be where, whichever movement brings it there, and how one may go on.

The database guard, the diagram and the tests are made from `TRANSFER_MOVES`: change a move here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from qtg_dagster.domain.errors import IllegalMove
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.progress import NodeStates
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, UNSETTLED_NODE_STATES, NodeState, RequestState


class TransferState(StrEnum):
    """Where a capital transfer stands."""

    REQUESTED = "REQUESTED"  # stored; its present attempt has no movement yet
    MOVING = "MOVING"  # the movement of its present attempt goes on, or waits for approval
    NEEDS_ATTENTION = "NEEDS_ATTENTION"  # only a person, or its movement's own recovery, leads on
    SETTLED = "SETTLED"  # its movement completed
    CANCELLED = "CANCELLED"  # called off; nothing moved, and nothing of it can move any more
    CLOSED = "CLOSED"  # ended by a person after a movement that may have moved money; the movement says how far


class Attention(StrEnum):
    """Why a transfer is shown to people."""

    NOT_BEGUN = "not_begun"  # no movement could be made
    ENDED = "ended"  # its movement ended, provably without any effect
    MAY_HAVE_MOVED = "may_have_moved"  # its movement stopped, and money may have moved
    MOVEMENT_GONE = "movement_gone"  # its movement is not stored any more, so nothing is known of it
    OVERDUE = "overdue"  # the time by which it was wanted has passed
    STALE = "stale"  # nothing has happened for a long time


#: What a person can do about it.
ADVICE: dict[Attention, str] = {
    Attention.NOT_BEGUN: "put right what is named, then `qtg transfer retry` it, or `qtg transfer cancel` it",
    Attention.ENDED: "`qtg transfer retry` makes another movement, `qtg transfer cancel` ends it",
    Attention.MAY_HAVE_MOVED: "settle the movement, which `qtg movement show` says how, and the transfer goes with it; "
    "when the movement has ended otherwise and the money is where it should be, `qtg transfer close` it",
    Attention.MOVEMENT_GONE: "find out where the money is, then `qtg transfer close` it",
    Attention.OVERDUE: "see to what it waits for, or `qtg transfer cancel` it while nothing has moved",
    Attention.STALE: "see to what it waits for, or `qtg transfer cancel` it while nothing has moved",
}


class TransferAction(StrEnum):
    """A decision that a person can take about a transfer."""

    RETRY = "retry"
    CANCEL = "cancel"
    CLOSE = "close"


T = TransferState

TRANSFER_MOVES: dict[TransferState, frozenset[TransferState]] = {
    T.REQUESTED: frozenset({T.MOVING, T.NEEDS_ATTENTION, T.CANCELLED}),
    # Back to REQUESTED only when nobody approved in time and the route says that approval is asked for again.
    T.MOVING: frozenset({T.SETTLED, T.NEEDS_ATTENTION, T.REQUESTED, T.CANCELLED}),
    # MOVING and SETTLED when the movement itself went on; the others are a person's decision.
    T.NEEDS_ATTENTION: frozenset({T.REQUESTED, T.MOVING, T.SETTLED, T.CANCELLED, T.CLOSED}),
    T.SETTLED: frozenset(),
    T.CANCELLED: frozenset(),
    T.CLOSED: frozenset(),
}
INITIAL_TRANSFER_STATE = T.REQUESTED
FINAL_TRANSFER_STATES = frozenset({T.SETTLED, T.CANCELLED, T.CLOSED})
#: Reasons that stop a transfer; the others are told of one that goes on.
STOPPING = frozenset({Attention.NOT_BEGUN, Attention.ENDED, Attention.MAY_HAVE_MOVED, Attention.MOVEMENT_GONE})
#: Ends of a movement after which it cannot begin again and has not done what it was for.
_ENDED = FINAL_REQUEST_STATES - {RequestState.COMPLETED}


def check_transfer_move(old: TransferState, new: TransferState) -> None:
    """Raise `IllegalMove` unless a transfer may go from `old` to `new`."""
    if new not in TRANSFER_MOVES[old]:
        raise IllegalMove(f"a capital transfer cannot go from {old} to {new}")


@dataclass(frozen=True, slots=True)
class MovementStanding:
    """How the movement of a transfer's present attempt stands."""

    request_id: str
    plan: Plan
    state: RequestState
    node_states: NodeStates
    #: node key -> (attempt, outcome so far) of attempts not proven to have had no effect
    open_attempts: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Whether it can never go on again."""
        return self.state in FINAL_REQUEST_STATES

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(key for key, state in self.node_states.items() if state is NodeState.UNKNOWN)

    def possible_effects(self) -> tuple[str, ...]:
        """Nodes whose side effect has happened, may have happened or still may; empty = provably nothing moved."""
        found: list[str] = []
        for node in self.plan.nodes:
            key, state = node.node_key, self.node_states[node.node_key]
            attempts = self.open_attempts.get(key, ())
            if not node.has_side_effect:
                continue
            if state is NodeState.COMPLETED or state in UNSETTLED_NODE_STATES:
                found.append(f"{key} is {state}")
            elif attempts:
                said = ", ".join(f"attempt {number} is {outcome}" for number, outcome in attempts)
                found.append(f"{key} is {state}, but {said}")
        return tuple(found)


class Step(StrEnum):
    """What a look at the movement means for its transfer."""

    SETTLE = "settle"
    ASK_AGAIN = "ask_again"  # nobody approved in time; another movement is made
    STOP = "stop"  # a person is needed
    GO_ON = "go_on"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The step, and why a person is needed."""

    step: Step
    attention: Attention | None = None
    because: str = ""


def verdict(movement: MovementStanding | None, *, asks_left: int) -> Verdict:
    """What a transfer makes of its movement as it stands now; None = the movement is not stored any more.

    `asks_left` is how often approval may still be asked for without a person's word. A second movement is made by
    itself in that one case alone: the first waited for approval until its window closed, so no node of it ever ran.
    """
    if movement is None:
        return Verdict(
            Step.STOP, Attention.MOVEMENT_GONE, "its movement is not stored any more; whether money moved is not known"
        )
    if movement.state is RequestState.COMPLETED:
        return Verdict(Step.SETTLE)
    effects = movement.possible_effects()
    name = f"movement {movement.request_id}"
    if movement.state is RequestState.MANUAL_INTERVENTION or movement.unknown:
        said = [*(f"{key} is {NodeState.UNKNOWN}" for key in movement.unknown)]
        said += [effect for effect in effects if effect not in said]
        known = f": {'; '.join(said)}" if said else ""
        return Verdict(Step.STOP, Attention.MAY_HAVE_MOVED, f"{name} is {movement.state}{known}")
    if movement.state in _ENDED or movement.state is RequestState.FAILED:
        if effects:
            return Verdict(Step.STOP, Attention.MAY_HAVE_MOVED, f"{name} is {movement.state}, and {'; '.join(effects)}")
        if movement.state is RequestState.EXPIRED and asks_left > 0:
            return Verdict(Step.ASK_AGAIN, because=f"{name} was not approved in time")
        return Verdict(Step.STOP, Attention.ENDED, f"{name} is {movement.state}; nothing of it moved")
    return Verdict(Step.GO_ON)


@dataclass(frozen=True, slots=True)
class Standing:
    """All that decides what a person may do about a transfer."""

    state: TransferState
    has_movement: bool  # at least one attempt became one
    movement: MovementStanding | None  # the newest; None although there is one = not stored any more

    @property
    def gone(self) -> bool:
        return self.has_movement and self.movement is None


def objection(standing: Standing, action: TransferAction) -> str | None:
    """Why an action cannot be taken now; None when it can."""
    state, movement = standing.state, standing.movement
    if state in FINAL_TRANSFER_STATES:
        return f"it is {state}; request a new one"
    if movement is not None and movement.state is RequestState.COMPLETED:
        return f"movement {movement.request_id} is COMPLETED: it settles with the next look"
    if action is TransferAction.CLOSE:
        return _against_close(standing)
    if action is TransferAction.RETRY and state is not T.NEEDS_ATTENTION:
        return f"it is {state}, not {T.NEEDS_ATTENTION}"
    if standing.gone:
        return "its movement is not stored any more, so that nothing moved cannot be shown; close it instead"
    if movement is None:
        return None
    effects = movement.possible_effects()
    if effects:
        how = "close it instead" if movement.final else "settle the movement first"
        return f"money may have moved: {'; '.join(effects)} in movement {movement.request_id}; {how}"
    if action is TransferAction.RETRY and not (movement.final or movement.state is RequestState.FAILED):
        return f"movement {movement.request_id} is {movement.state} and may still do it"
    return None


def _against_close(standing: Standing) -> str | None:
    movement = standing.movement
    if standing.state is not T.NEEDS_ATTENTION:
        return f"it is {standing.state}, not {T.NEEDS_ATTENTION}"
    if standing.gone:
        return None
    if movement is None or not movement.possible_effects():
        return "nothing of it moved; cancel it instead"
    if not movement.final:
        return f"movement {movement.request_id} is {movement.state}; settle or cancel the movement first"
    return None


def possible_actions(standing: Standing) -> tuple[TransferAction, ...]:
    """Everything that a person may do about a transfer now."""
    return tuple(action for action in TransferAction if objection(standing, action) is None)
