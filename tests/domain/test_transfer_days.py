"""Random days of one transfer over a provider that loses answers and acts late: the money moves once, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from qtg_dagster.domain import actions
from qtg_dagster.domain.actions import Action
from qtg_dagster.domain.capital_transfers import (
    FINAL_TRANSFER_STATES,
    Attention,
    MovementStanding,
    Standing,
    Step,
    TransferAction,
    TransferState,
    check_transfer_move,
    objection,
    verdict,
)
from qtg_dagster.domain.progress import derive_request_state
from qtg_dagster.domain.states import (
    DISPATCHABLE_REQUEST_STATES,
    REQUEST_MOVES,
    NodeState,
    RequestState,
    check_node_move,
    check_request_move,
)
from tests.engine.plans import node, plan_of, watch

PLAN = plan_of(node("move"), watch("see"), edges=(("move", "see"),))
T, N, R = TransferState, NodeState, RequestState
_RULES: list[tuple[Callable[[Days], object], Callable[[Days], None]]] = []


def when(enabled: Callable[[Days], object]) -> Callable[[Callable[[Days], None]], Callable[[Days], None]]:
    """Something that may happen while a condition holds."""

    def register(happens: Callable[[Days], None]) -> Callable[[Days], None]:
        _RULES.append((enabled, happens))
        return happens

    return register


_CLOSED = ("NOT_SENT", "REJECTED", "FAILED")


@dataclass
class Movement:
    """A movement by the engine's own tables, and what the provider knows of each of its attempts."""

    state: RequestState = R.PENDING_APPROVAL
    nodes: dict[str, NodeState] = field(default_factory=lambda: {"move": N.BLOCKED, "see": N.BLOCKED})
    outcomes: list[str] = field(default_factory=list)  # of the attempts of `move`, as recorded
    on_its_way: set[int] = field(default_factory=set)  # attempts that the provider may still execute

    def to(self, state: RequestState) -> None:
        check_request_move(self.state, state)
        self.state = state

    def node_to(self, key: str, state: NodeState) -> None:
        check_node_move(self.nodes[key], state)
        self.nodes[key] = state
        if key == "move" and state is N.COMPLETED:
            self.nodes["see"] = N.READY
        derived = derive_request_state(PLAN, self.nodes)
        if derived in REQUEST_MOVES[self.state]:
            self.to(derived)

    @property
    def open_attempts(self) -> dict[str, list[tuple[int, str]]]:
        found = [(number, one) for number, one in enumerate(self.outcomes, 1) if one not in _CLOSED]
        return {"move": found} if found else {}

    def allows(self, action: Action, key: str | None = None) -> bool:
        standing = actions.Standing(PLAN, self.state, self.nodes, open_attempts=self.open_attempts)
        return actions.objection(standing, action, key) is None

    def cancel(self) -> None:
        self.to(R.CANCELLED)
        self.nodes = {k: N.CANCELLED if s in (N.BLOCKED, N.READY) else s for k, s in self.nodes.items()}

    def standing(self) -> MovementStanding:
        return MovementStanding("m", PLAN, self.state, self.nodes, self.open_attempts)


class Days:
    """One transfer, everybody who acts on it, and the provider's own count of what moved."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.ends: list[TransferState] = []
        self.begin()

    def begin(self) -> None:
        self.state = T.REQUESTED
        self.attention: Attention | None = None
        self.movements: list[Movement] = []
        self.moved = 0
        self.asks = 2

    def to(self, state: TransferState) -> None:
        check_transfer_move(self.state, state)
        self.state = state

    @property
    def newest(self) -> Movement:
        return self.movements[-1]

    def standing(self) -> Standing:
        movement = self.newest.standing() if self.movements else None
        return Standing(self.state, has_movement=bool(self.movements), movement=movement)

    def has(self, state: NodeState, key: str = "move") -> bool:
        return bool(self.movements) and self.newest.nodes[key] is state

    @when(lambda self: self.state not in FINAL_TRANSFER_STATES)
    def follow_up(self) -> None:
        if self.state is T.REQUESTED:
            self.movements.append(Movement())
            self.to(T.MOVING)
        else:
            found = verdict(self.newest.standing(), asks_left=self.asks if self.state is T.MOVING else 0)
            self.attention = found.attention
            match found.step:
                case Step.SETTLE:
                    self.to(T.SETTLED)
                case Step.ASK_AGAIN:
                    self.asks -= 1
                    self.to(T.REQUESTED)
                case Step.STOP if self.state is T.MOVING:
                    self.to(T.NEEDS_ATTENTION)
                case Step.GO_ON if self.state is T.NEEDS_ATTENTION:
                    self.to(T.MOVING)

    @when(lambda self: self.state in FINAL_TRANSFER_STATES)
    def next_day(self) -> None:
        """Another transfer."""
        self.ends.append(self.state)
        self.begin()

    @when(lambda self: self.state not in FINAL_TRANSFER_STATES)
    def decide(self) -> None:
        action = self.dice.choice([*[TransferAction.RETRY] * 3, TransferAction.CLOSE, TransferAction.CANCEL])
        rarely = self.dice.random() < 0.1
        if objection(self.standing(), action) is not None or (action is TransferAction.CANCEL and not rarely):
            return
        if action is TransferAction.CLOSE:
            self.to(T.CLOSED)
            return
        movement = self.newest if self.movements else None
        if movement is not None and not movement.standing().final:
            if not movement.allows(Action.CANCEL):
                return
            movement.cancel()
        self.to(T.REQUESTED if action is TransferAction.RETRY else T.CANCELLED)

    @when(lambda self: self.movements and self.newest.state is R.PENDING_APPROVAL)
    def approval(self) -> None:
        state = self.dice.choice([*[R.APPROVED] * 6, R.REJECTED, R.EXPIRED])
        self.newest.to(state)
        if state is R.APPROVED:
            self.newest.node_to("move", N.READY)

    @when(lambda self: self.movements)
    def movement_decision(self) -> None:
        """People act on any of the transfer's movements, also on those that it has left behind."""
        movement = self.dice.choice(self.movements)
        action = self.dice.choice([Action.CANCEL, Action.RETRY, Action.RESUME])
        rarely = self.dice.random() < 0.1
        key = "move" if action is Action.RETRY else None
        stopped = movement.state in (R.FAILED, R.MANUAL_INTERVENTION)
        if not movement.allows(action, key) or (action is Action.CANCEL and not (rarely or stopped)):
            return
        if action is Action.CANCEL:
            movement.cancel()
        elif action is Action.RETRY:
            movement.nodes["move"] = N.READY
            movement.to(R.EXECUTING)
        else:
            movement.to(R.EXECUTING)

    @when(lambda self: any(each.nodes["move"] is N.READY for each in self.movements))
    def dispatch(self) -> None:
        answer = self.dice.choice(["NOT_SENT", "REJECTED", "ACCEPTED", "ACCEPTED", "lost after", "lost before"])
        movement = next(each for each in self.movements if each.nodes["move"] is N.READY)
        if movement.state not in DISPATCHABLE_REQUEST_STATES:
            return
        if movement.state is R.APPROVED:
            movement.to(R.EXECUTING)
        movement.node_to("move", N.SUBMITTING)
        if answer in ("ACCEPTED", "lost after"):
            self.moved += 1
        if answer == "lost before":
            movement.on_its_way.add(len(movement.outcomes))
        movement.outcomes.append("UNKNOWN" if answer.startswith("lost") else answer)
        after = {"NOT_SENT": N.READY, "REJECTED": N.FAILED, "ACCEPTED": N.SUBMITTED}
        movement.node_to("move", after.get(answer, N.UNKNOWN))

    @when(lambda self: any(each.on_its_way for each in self.movements))
    def provider_acts_late(self) -> None:
        movement = next(each for each in self.movements if each.on_its_way)
        movement.on_its_way.pop()
        self.moved += 1

    @when(lambda self: self.has(N.UNKNOWN))
    def recover(self) -> None:
        """FAILED only when the provider says that it will never execute it; else it has been, or nobody knows yet."""
        movement = self.newest
        number = len(movement.outcomes) - 1
        if number in movement.on_its_way:
            movement.on_its_way.discard(number)
            movement.outcomes[number] = "FAILED"
            movement.node_to("move", N.FAILED)
        else:
            movement.outcomes[number] = "ACCEPTED"
            movement.node_to("move", N.SUBMITTED)

    @when(lambda self: self.has(N.SUBMITTED))
    def observe(self) -> None:
        self.newest.outcomes[-1] = "COMPLETED"
        self.newest.node_to("move", N.COMPLETED)

    @when(lambda self: self.has(N.READY, "see"))
    def see(self) -> None:
        if self.newest.state not in DISPATCHABLE_REQUEST_STATES:
            return
        self.newest.node_to("see", N.SUBMITTING)
        self.newest.node_to("see", self.dice.choice([N.COMPLETED, N.UNKNOWN, N.FAILED]))

    @when(lambda self: self.has(N.UNKNOWN, "see"))
    def see_after_all(self) -> None:
        self.newest.node_to("see", self.dice.choice([N.COMPLETED, N.FAILED]))

    def it_moves_once_at_most(self) -> None:
        assert self.moved + sum(len(each.on_its_way) for each in self.movements) <= 1

    def the_end_says_what_happened(self) -> None:
        if self.state is T.SETTLED:
            assert self.moved == 1
        if self.state is T.CANCELLED:
            assert self.moved == 0
            assert not any(each.on_its_way for each in self.movements)
        if self.attention is Attention.ENDED and self.state is T.NEEDS_ATTENTION:
            left = [each for each in self.movements if each.standing().final]
            assert all(not each.on_its_way for each in left)

    def only_one_movement_can_go_on(self) -> None:
        assert sum(not each.standing().final for each in self.movements) <= 1


def live(seed: int, steps: int) -> Days:
    """So many things that happen, one after the other, and what must hold after each."""
    days = Days(random.Random(seed))  # noqa: S311 - a story, not a secret
    for _ in range(steps):
        happens = days.dice.choice([happens for enabled, happens in _RULES if enabled(days)])
        happens(days)
        days.it_moves_once_at_most()
        days.the_end_says_what_happened()
        days.only_one_movement_can_go_on()
    return days


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_in_whatever_order_the_money_moves_once_or_not_at_all(seed: int) -> None:
    live(seed, 400)


def test_the_days_come_to_every_end() -> None:
    """Else the test above would prove less than it says."""
    assert {end for seed in range(20) for end in live(seed, 400).ends} == FINAL_TRANSFER_STATES
