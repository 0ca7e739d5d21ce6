"""What follows from the states of a movement's nodes: which become READY, and where the movement stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qtg_dagster.domain.plans import NodeKind, Plan
from qtg_dagster.domain.states import (
    SETTLED_NODE_STATES,
    UNSETTLED_NODE_STATES,
    NodeState,
    RequestState,
)

NodeStates = Mapping[str, NodeState]


@dataclass(frozen=True, slots=True)
class Advance:
    """Consequences of one node's settling."""

    ready: tuple[str, ...]  # node keys that go from BLOCKED to READY
    request_state: RequestState | None  # the new state, or None for no change


def newly_ready(plan: Plan, states: NodeStates) -> tuple[str, ...]:
    """Keys of BLOCKED nodes with everything before them COMPLETED or SKIPPED, in plan order.

    A node that was skipped before its turn holds its successors back for as long as its predecessors do.
    """
    predecessors = plan.predecessors()

    def settled(key: str) -> bool:
        if states[key] is NodeState.SKIPPED:
            return all(settled(before) for before in predecessors[key])
        return states[key] in SETTLED_NODE_STATES

    return tuple(
        node.node_key
        for node in plan.nodes
        if states[node.node_key] is NodeState.BLOCKED and all(settled(before) for before in predecessors[node.node_key])
    )


def derive_request_state(plan: Plan, states: NodeStates) -> RequestState | None:
    """Aggregate node states into a request state; None means that nothing changes.

    The order of the rules is the runtime reference's. A READY manual node makes the movement wait for a person
    only when no other node can go on: otherwise a lane that is still open would stall behind the person.
    """
    if all(state in SETTLED_NODE_STATES for state in states.values()):
        return RequestState.COMPLETED
    failed = any(state is NodeState.FAILED for state in states.values())
    unknown = any(state is NodeState.UNKNOWN for state in states.values())
    effect_done = any(node.has_side_effect and states[node.node_key] is NodeState.COMPLETED for node in plan.nodes)
    if (failed or unknown) and effect_done:
        return RequestState.MANUAL_INTERVENTION
    if failed:
        in_flight = any(node.has_side_effect and states[node.node_key] in UNSETTLED_NODE_STATES for node in plan.nodes)
        # Nobody is told FAILED while another branch may have moved money: wait until it is settled.
        return None if in_flight else RequestState.FAILED
    if _waits_for_a_person(plan, states):
        return RequestState.WAITING_MANUAL_ACTION
    return None


def _waits_for_a_person(plan: Plan, states: NodeStates) -> bool:
    ready = [node for node in plan.nodes if states[node.node_key] is NodeState.READY]
    busy = any(state in UNSETTLED_NODE_STATES for state in states.values())
    return bool(ready) and not busy and all(node.node_kind is NodeKind.MANUAL for node in ready)


def advance_after_completion(plan: Plan, states: NodeStates) -> Advance:
    """Everything that follows from `states` in one look: nodes to release, and the movement's new state."""
    ready = newly_ready(plan, states)
    after = {**states, **dict.fromkeys(ready, NodeState.READY)}
    return Advance(ready=ready, request_state=derive_request_state(plan, after))
