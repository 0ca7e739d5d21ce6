"""What follows from where the nodes stand, rule by rule, and what may never follow."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.progress import advance_after_completion, derive_request_state, newly_ready
from qtg_dagster.domain.states import IN_FLIGHT_NODE_STATES, SETTLED_NODE_STATES, NodeState, RequestState

N, R = NodeState, RequestState


def plan_of(*keys: str, edges: tuple[tuple[str, str], ...] = ()) -> Plan:
    """Nodes named a* are actions, o* observe, manual_* are manual."""
    nodes = []
    for key in keys:
        kind = "manual" if key.startswith("manual_") else "observe" if key.startswith("o") else "action"
        executor = None if kind == "manual" else "exec.local.move"
        nodes.append({"node_key": key, "node_kind": kind, "action_type": "move", "executor_key": executor})
    joined = [{"from_node": before, "to_node": after} for before, after in edges]
    return Plan.model_validate({"template_key": "sample", "title": "Sample", "nodes": nodes, "edges": joined})


DIAMOND = plan_of("a_top", "a_left", "o_right", "a_bottom", edges=(
    ("a_top", "a_left"), ("a_top", "o_right"), ("a_left", "a_bottom"), ("o_right", "a_bottom")))  # fmt: skip
FREE = plan_of("a1", "a2", "o1", "manual_m")


def states(plan: Plan, **given: NodeState) -> dict[str, NodeState]:
    return {node.node_key: given.get(node.node_key, N.BLOCKED) for node in plan.nodes}


@pytest.mark.parametrize("left", [N.COMPLETED, N.SKIPPED, N.OBSERVING, N.UNKNOWN, N.FAILED, N.CANCELLED, N.READY])
@pytest.mark.parametrize("right", [N.COMPLETED, N.SKIPPED, N.SUBMITTING, N.BLOCKED])
def test_a_join_is_ready_when_every_predecessor_is_settled(left: NodeState, right: NodeState) -> None:
    found = newly_ready(DIAMOND, states(DIAMOND, a_top=N.COMPLETED, a_left=left, o_right=right))
    assert ("a_bottom" in found) == ({left, right} <= SETTLED_NODE_STATES)


def test_only_blocked_nodes_become_ready() -> None:
    for state in N:
        found = newly_ready(DIAMOND, states(DIAMOND, a_top=state))
        assert ("a_top" in found) == (state is N.BLOCKED)


@pytest.mark.parametrize(
    ("given_states", "expected"),
    [
        # all settled
        ({"a1": N.COMPLETED, "a2": N.SKIPPED, "o1": N.COMPLETED, "manual_m": N.COMPLETED}, R.COMPLETED),
        ({"a1": N.SKIPPED, "a2": N.SKIPPED, "o1": N.SKIPPED, "manual_m": N.SKIPPED}, R.COMPLETED),
        # failed or uncertain after an effect
        ({"a1": N.COMPLETED, "a2": N.FAILED}, R.MANUAL_INTERVENTION),
        ({"a1": N.COMPLETED, "a2": N.UNKNOWN}, R.MANUAL_INTERVENTION),
        ({"a1": N.COMPLETED, "o1": N.UNKNOWN, "manual_m": N.READY}, R.MANUAL_INTERVENTION),
        ({"a1": N.COMPLETED, "o1": N.FAILED, "a2": N.OBSERVING}, R.MANUAL_INTERVENTION),
        # failed without an effect
        ({"a1": N.FAILED}, R.FAILED),
        ({"a1": N.FAILED, "manual_m": N.READY}, R.FAILED),
        ({"a1": N.FAILED, "a2": N.READY}, R.FAILED),
        ({"o1": N.FAILED, "manual_m": N.COMPLETED}, R.FAILED),  # a person's step moves nothing by itself
        ({"a1": N.SKIPPED, "a2": N.FAILED}, R.FAILED),  # what was skipped had no effect
        # failed, but another branch may have moved money
        ({"a1": N.FAILED, "a2": N.SUBMITTING}, None),
        ({"a1": N.FAILED, "a2": N.UNKNOWN}, None),
        # a person is waited for
        ({"manual_m": N.READY}, R.WAITING_MANUAL_ACTION),
        ({"manual_m": N.READY, "a1": N.COMPLETED}, R.WAITING_MANUAL_ACTION),
        ({"manual_m": N.READY, "a1": N.OBSERVING}, None),
        ({"manual_m": N.READY, "a1": N.READY}, None),
        ({"manual_m": N.READY, "o1": N.UNKNOWN}, None),
        # otherwise nothing changes
        ({"a1": N.UNKNOWN}, None),
        ({"a1": N.READY}, None),
        ({"a1": N.COMPLETED, "a2": N.READY}, None),
    ],
)
def test_the_movements_state_follows_the_rules_in_order(
    given_states: dict[str, NodeState], expected: RequestState | None
) -> None:
    assert derive_request_state(FREE, states(FREE, **given_states)) is expected


THREE = plan_of("a1", "a2", "o1")


@pytest.mark.parametrize("found", list(itertools.product(N, repeat=3)))
def test_over_all_states_of_three_nodes_nobody_is_told_wrong(found: tuple[NodeState, ...]) -> None:
    where = dict(zip(("a1", "a2", "o1"), found, strict=True))
    state = derive_request_state(THREE, where)
    effects = [where["a1"], where["a2"]]
    if state is R.FAILED:
        assert N.FAILED in found
        assert not set(effects) & (IN_FLIGHT_NODE_STATES | {N.UNKNOWN, N.COMPLETED})
    if state is R.COMPLETED:
        assert set(found) <= SETTLED_NODE_STATES
    if state is R.MANUAL_INTERVENTION:
        assert N.COMPLETED in effects
        assert {N.FAILED, N.UNKNOWN} & set(found)
    if N.COMPLETED in effects and {N.FAILED, N.UNKNOWN} & set(found):
        assert state is R.MANUAL_INTERVENTION


@st.composite
def plans_with_states(draw: st.DrawFn) -> tuple[Plan, dict[str, NodeState]]:
    size = draw(st.integers(1, 6))
    keys = [f"{draw(st.sampled_from(['a', 'o', 'manual_m']))}{number}" for number in range(size)]
    pairs = [(keys[i], keys[j]) for j in range(size) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    where = {key: draw(st.sampled_from(N)) for key in keys}
    return plan_of(*keys, edges=tuple(edges)), where


@given(plans_with_states())
def test_advancing_is_finished_in_one_look(case: tuple[Plan, dict[str, NodeState]]) -> None:
    plan, where = case
    found = advance_after_completion(plan, where)
    after = {**where, **dict.fromkeys(found.ready, N.READY)}
    assert newly_ready(plan, after) == ()
    assert advance_after_completion(plan, after).request_state is found.request_state


@given(plans_with_states(), st.data())
def test_settling_one_more_node_takes_no_readiness_away(
    case: tuple[Plan, dict[str, NodeState]], data: st.DataObject
) -> None:
    plan, where = case
    key = data.draw(st.sampled_from(sorted(where)))
    settled: Any = {**where, key: N.COMPLETED}
    assert set(newly_ready(plan, where)) - {key} <= set(newly_ready(plan, settled))


@given(plans_with_states())
def test_a_movement_with_no_way_on_is_never_left_without_a_word(case: tuple[Plan, dict[str, NodeState]]) -> None:
    """When nothing is in flight, uncertain or startable, the movement's state says so."""
    plan, where = case
    found = advance_after_completion(plan, where)
    after = {**where, **dict.fromkeys(found.ready, N.READY)}
    going_on = IN_FLIGHT_NODE_STATES | {N.UNKNOWN, N.CANCELLED}
    startable = any(s is N.READY and not k.startswith("manual_") for k, s in after.items())
    if not startable and not set(after.values()) & going_on:
        blocked_for_ever = (
            all(s in SETTLED_NODE_STATES | {N.BLOCKED} for s in after.values()) and N.BLOCKED in after.values()
        )
        assert found.request_state is not None or blocked_for_ever
        assert not blocked_for_ever, "a DAG whose settled nodes release nothing"
