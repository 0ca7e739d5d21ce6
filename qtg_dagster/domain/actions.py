"""What people may do to a movement now: the one rule that operations enforce and that pages and events show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from qtg_dagster.domain.plans import NodeKind, Plan, split_reference
from qtg_dagster.domain.progress import NodeStates
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, UNSETTLED_NODE_STATES, NodeState, RequestState


class Action(StrEnum):
    """A decision that a person can take; the last four are about one node."""

    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"
    RESUME = "resume"
    RETRY = "retry"
    COMPLETE = "complete"
    SKIP = "skip"
    ADOPT = "adopt"


NODE_ACTIONS = (Action.RETRY, Action.COMPLETE, Action.SKIP, Action.ADOPT)
REQUEST_ACTIONS = (Action.APPROVE, Action.REJECT, Action.CANCEL, Action.RESUME)
#: Nodes that something which exists already can be attached to.
ADOPTING_NODE_STATES = frozenset({NodeState.READY, NodeState.UNKNOWN, NodeState.FAILED})
#: A node in one of these will not run any more, so it needs no value of another.
_PAST = frozenset({NodeState.COMPLETED, NodeState.SKIPPED, NodeState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Standing:
    """All that decides what may be done with a movement."""

    plan: Plan
    request_state: RequestState
    node_states: NodeStates
    expired: bool = False  # its approval window has closed
    #: node key -> (attempt, outcome so far) of attempts not proven to have had no effect
    open_attempts: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    adopting: frozenset[str] = frozenset()  # keys of nodes whose executor can adopt


@dataclass(frozen=True, slots=True)
class Allowed:
    """One thing that may be done now."""

    action: Action
    node_key: str | None = None

    def __str__(self) -> str:
        return f"{self.action} {self.node_key}" if self.node_key else str(self.action)


def allowed_actions(standing: Standing) -> tuple[Allowed, ...]:
    """Everything that may be done now, movement first, then nodes in the plan's order."""
    candidates = [Allowed(action) for action in REQUEST_ACTIONS]
    candidates += [Allowed(action, node.node_key) for node in standing.plan.nodes for action in NODE_ACTIONS]
    return tuple(each for each in candidates if objection(standing, each.action, each.node_key) is None)


def objection(standing: Standing, action: Action, node_key: str | None = None) -> str | None:
    """Why an action cannot be taken now; None when it can. Node actions name a node of the plan."""
    if action in NODE_ACTIONS:
        if node_key not in standing.node_states:
            return f"there is no node {node_key!r}; there are {', '.join(standing.node_states)}"
        return _about_node(standing, action, str(node_key))
    state = standing.request_state
    if action in (Action.APPROVE, Action.REJECT):
        if state is not RequestState.PENDING_APPROVAL:
            return f"it is {state}, not {RequestState.PENDING_APPROVAL}"
        return "its approval window has closed" if standing.expired else None
    if action is Action.CANCEL:
        return _against_cancel(standing)
    return _against_resume(standing)


def _against_cancel(standing: Standing) -> str | None:
    if standing.request_state in FINAL_REQUEST_STATES:
        return f"it is already {standing.request_state}"
    started = [f"{key} {state}" for key, state in standing.node_states.items() if state in UNSETTLED_NODE_STATES]
    return f"it cannot be called off while {', '.join(started)}; let it settle, then cancel" if started else None


def _against_resume(standing: Standing) -> str | None:
    if standing.request_state is not RequestState.MANUAL_INTERVENTION:
        return f"it is {standing.request_state}, not MANUAL_INTERVENTION"
    failed = [key for key, state in standing.node_states.items() if state is NodeState.FAILED]
    if failed and not any(state in UNSETTLED_NODE_STATES for state in standing.node_states.values()):
        return f"it cannot go on while {', '.join(failed)} is FAILED; retry it, or cancel"
    return None


def _about_node(standing: Standing, action: Action, node_key: str) -> str | None:
    if standing.request_state in FINAL_REQUEST_STATES:
        return f"it is {standing.request_state}; order a new one"
    if standing.request_state is RequestState.PENDING_APPROVAL:
        return "it is not approved yet; what is decided on is the movement as it stands"
    match action:
        case Action.RETRY:
            return _against_retry(standing, node_key)
        case Action.COMPLETE:
            return _against_complete(standing, node_key)
        case Action.SKIP:
            return _against_skip(standing, node_key)
        case _:
            return _against_adopt(standing, node_key)


def _against_retry(standing: Standing, node_key: str) -> str | None:
    state = standing.node_states[node_key]
    if state is not NodeState.FAILED:
        return f"{node_key} is {state}; only a FAILED node is retried"
    return _still_open(standing, node_key)


def _against_complete(standing: Standing, node_key: str) -> str | None:
    state = standing.node_states[node_key]
    if standing.plan.node(node_key).node_kind is not NodeKind.MANUAL:
        return f"{node_key} is done by an executor, not by hand"
    return f"{node_key} is {state}, not READY" if state is not NodeState.READY else None


def _against_skip(standing: Standing, node_key: str) -> str | None:
    state = standing.node_states[node_key]
    if standing.plan.node(node_key).node_kind is not NodeKind.MANUAL:
        return f"{node_key} is done by an executor; only a manual node is skipped"
    if state not in (NodeState.READY, NodeState.BLOCKED):
        return f"{node_key} is {state}; only a READY or BLOCKED node is skipped"
    needing = [
        node.node_key
        for node in standing.plan.nodes
        if standing.node_states[node.node_key] not in _PAST and node_key in _referenced(node.config)
    ]
    return f"{', '.join(needing)} needs what {node_key} is to find out; complete it instead" if needing else None


def _against_adopt(standing: Standing, node_key: str) -> str | None:
    state = standing.node_states[node_key]
    node = standing.plan.node(node_key)
    if node.node_kind is NodeKind.MANUAL:
        return f"{node_key} is done by hand; complete it instead"
    if node_key not in standing.adopting:
        return f"{node_key} is done by {node.executor_key}, which can adopt nothing"
    if state not in ADOPTING_NODE_STATES:
        return f"{node_key} is {state}; only a READY, UNKNOWN or FAILED node adopts"
    return None if state is NodeState.UNKNOWN else _still_open(standing, node_key)


def _still_open(standing: Standing, node_key: str) -> str | None:
    attempts = standing.open_attempts.get(node_key, ())
    if not attempts:
        return None
    said = ", ".join(f"attempt {number} is {outcome}" for number, outcome in attempts)
    return f"{node_key} could still take effect: {said}; doing it again might move the money twice"


def _referenced(config: Mapping[str, object]) -> set[str]:
    found = (split_reference(value) for value in config.values())
    return {target.split(".", 1)[0] for kind, target in found if kind == "ref"}
