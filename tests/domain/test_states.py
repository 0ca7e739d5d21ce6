"""Every pair of states: what the table says is what the checks say, and the promises that the table makes."""

from __future__ import annotations

import itertools

import pytest

from qtg_dagster.domain.errors import IllegalMove
from qtg_dagster.domain.states import (
    DISPATCHABLE_REQUEST_STATES,
    EVIDENCED_NODE_STATES,
    FINAL_REQUEST_STATES,
    IN_FLIGHT_NODE_STATES,
    INITIAL_NODE_STATE,
    INITIAL_REQUEST_STATE,
    NODE_MOVES,
    REQUEST_MOVES,
    SETTLED_NODE_STATES,
    NodeState,
    RequestState,
    check_node_move,
    check_request_move,
)

N, R = NodeState, RequestState


@pytest.mark.parametrize(("old", "new"), list(itertools.product(N, N)))
def test_every_pair_of_node_states_is_judged_by_the_table(old: NodeState, new: NodeState) -> None:
    if new in NODE_MOVES[old]:
        check_node_move(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"from {old} to {new}"):
            check_node_move(old, new)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(R, R)))
def test_every_pair_of_request_states_is_judged_by_the_table(old: RequestState, new: RequestState) -> None:
    if new in REQUEST_MOVES[old]:
        check_request_move(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"from {old} to {new}"):
            check_request_move(old, new)


def test_the_tables_name_every_state() -> None:
    assert set(NODE_MOVES) == set(N)
    assert set(REQUEST_MOVES) == set(R)


def test_no_state_moves_to_itself() -> None:
    assert not [state for state, targets in NODE_MOVES.items() if state in targets]
    assert not [state for state, targets in REQUEST_MOVES.items() if state in targets]


def test_uncertainty_is_never_sent_again() -> None:
    """READY is where a submit starts: only what provably never left, or an operator's retry, leads back to it."""
    leads_back = {state for state, targets in NODE_MOVES.items() if N.READY in targets}
    assert leads_back == {N.BLOCKED, N.SUBMITTING, N.FAILED}


def test_nothing_in_flight_or_uncertain_can_be_called_off() -> None:
    for state in IN_FLIGHT_NODE_STATES | {N.UNKNOWN}:
        assert not NODE_MOVES[state] & {N.CANCELLED, N.SKIPPED}


def test_what_took_effect_stays_so() -> None:
    for state in (N.COMPLETED, N.SKIPPED, N.CANCELLED):
        assert NODE_MOVES[state] == frozenset()


def test_final_requests_have_no_way_on_and_all_others_have() -> None:
    assert {state for state, targets in REQUEST_MOVES.items() if not targets} == FINAL_REQUEST_STATES


@pytest.mark.parametrize(
    ("moves", "initial"), [(NODE_MOVES, INITIAL_NODE_STATE), (REQUEST_MOVES, INITIAL_REQUEST_STATE)]
)
def test_every_state_can_be_reached_from_the_initial_one(moves: dict[str, frozenset[str]], initial: str) -> None:
    reached, frontier = {initial}, {initial}
    while frontier:
        frontier = {target for state in frontier for target in moves[state]} - reached
        reached |= frontier
    assert reached == set(moves)


def test_an_approval_stands_between_a_movement_and_its_first_dispatch() -> None:
    reached, frontier = {INITIAL_REQUEST_STATE}, {INITIAL_REQUEST_STATE}
    while frontier:
        frontier = {t for s in frontier for t in REQUEST_MOVES[s] if t is not R.APPROVED} - reached
        reached |= frontier
    assert not reached & DISPATCHABLE_REQUEST_STATES


def test_the_named_sets_do_not_overlap_where_they_must_not() -> None:
    assert not SETTLED_NODE_STATES & IN_FLIGHT_NODE_STATES
    assert N.UNKNOWN not in IN_FLIGHT_NODE_STATES | SETTLED_NODE_STATES | EVIDENCED_NODE_STATES
    assert {N.COMPLETED, N.FAILED} == EVIDENCED_NODE_STATES
