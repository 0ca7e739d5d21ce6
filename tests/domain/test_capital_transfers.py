"""Over all standings of a movement: what a transfer makes of it, and what a person may do, never moves money twice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.capital_transfers import (
    ADVICE,
    FINAL_TRANSFER_STATES,
    INITIAL_TRANSFER_STATE,
    STOPPING,
    TRANSFER_MOVES,
    Attention,
    MovementStanding,
    Standing,
    Step,
    TransferAction,
    TransferState,
    check_transfer_move,
    objection,
    possible_actions,
    verdict,
)
from qtg_dagster.domain.errors import IllegalMove
from qtg_dagster.domain.plans import NodeKind
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, NodeState, RequestState
from tests.engine.plans import manual, node, plan_of, watch

T, N, R = TransferState, NodeState, RequestState
PLAN = plan_of(node("first"), watch("watch"), manual("manual_look"), node("last"))
ACTIONS = [each.node_key for each in PLAN.nodes if each.node_kind is NodeKind.ACTION]
#: Node states in which an action has done nothing and will do nothing by itself.
STILL = (N.BLOCKED, N.READY, N.FAILED, N.SKIPPED, N.CANCELLED)

outcomes = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["ACCEPTED", "UNKNOWN", "COMPLETED", "not known"])))
movements = st.builds(
    MovementStanding,
    request_id=st.just("m"),
    plan=st.just(PLAN),
    state=st.sampled_from(R),
    node_states=st.fixed_dictionaries({each.node_key: st.sampled_from(N) for each in PLAN.nodes}),
    open_attempts=st.dictionaries(st.sampled_from(ACTIONS), outcomes, max_size=2),
)
standings = st.builds(
    Standing, state=st.sampled_from(T), has_movement=st.booleans(), movement=st.none() | movements
).filter(lambda each: each.has_movement or each.movement is None)


def harmless(movement: MovementStanding) -> bool:
    """Said another way than the code says it: every action stands still, and no attempt of it is open."""
    still = all(movement.node_states[key] in STILL for key in ACTIONS)
    return still and not any(movement.open_attempts.get(key) for key in ACTIONS)


def standing(state: RequestState, first: NodeState = N.BLOCKED, **rest: object) -> MovementStanding:
    states = {each.node_key: N.BLOCKED for each in PLAN.nodes} | {"first": first}
    return MovementStanding("m", PLAN, state, states, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(T, T)))
def test_every_pair_of_states_is_judged_by_the_table(old: TransferState, new: TransferState) -> None:
    if new in TRANSFER_MOVES[old]:
        check_transfer_move(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"from {old} to {new}"):
            check_transfer_move(old, new)


def test_the_table_names_every_state_reaches_each_and_ends_where_it_says() -> None:
    assert set(TRANSFER_MOVES) == set(T)
    assert {state for state, targets in TRANSFER_MOVES.items() if not targets} == FINAL_TRANSFER_STATES
    reached, frontier = {INITIAL_TRANSFER_STATE}, {INITIAL_TRANSFER_STATE}
    while frontier:
        frontier = {target for state in frontier for target in TRANSFER_MOVES[state]} - reached
        reached |= frontier
    assert reached == set(T)


def test_every_reason_comes_with_something_to_do() -> None:
    assert set(ADVICE) == set(Attention)
    assert all("`qtg " in advice for advice in ADVICE.values())


@given(movements)
def test_nothing_moved_is_said_exactly_when_it_is_proven(movement: MovementStanding) -> None:
    assert (not movement.possible_effects()) == harmless(movement)


@given(movements, st.integers(0, 3))
def test_a_second_movement_is_made_by_itself_only_for_one_that_nobody_approved(
    movement: MovementStanding, asks_left: int
) -> None:
    found = verdict(movement, asks_left=asks_left)
    if found.step is Step.ASK_AGAIN:
        assert movement.state is R.EXPIRED
        assert asks_left > 0
        assert harmless(movement)
        assert not movement.unknown


@given(movements, st.integers(0, 3))
def test_settled_is_said_of_a_completed_movement_and_of_no_other(movement: MovementStanding, asks_left: int) -> None:
    found = verdict(movement, asks_left=asks_left)
    assert (found.step is Step.SETTLE) == (movement.state is R.COMPLETED)


@given(movements)
def test_what_stops_is_told_with_whether_money_may_have_moved(movement: MovementStanding) -> None:
    found = verdict(movement, asks_left=0)
    assert (found.step is Step.STOP) == (found.attention is not None) == bool(found.because)
    if found.step is Step.STOP:
        assert found.attention in STOPPING
    if found.attention is Attention.ENDED:
        assert harmless(movement)
    stuck = movement.unknown or movement.state is R.MANUAL_INTERVENTION
    if stuck and movement.state is not R.COMPLETED:
        assert found.attention is Attention.MAY_HAVE_MOVED
    if found.step is Step.GO_ON:
        assert movement.state not in FINAL_REQUEST_STATES | {R.FAILED, R.MANUAL_INTERVENTION}


def test_of_a_movement_that_is_not_stored_nothing_is_concluded() -> None:
    found = verdict(None, asks_left=3)
    assert (found.step, found.attention) == (Step.STOP, Attention.MOVEMENT_GONE)
    gone = Standing(T.NEEDS_ATTENTION, has_movement=True, movement=None)
    assert possible_actions(gone) == (TransferAction.CLOSE,)


@given(standings)
def test_nobody_retries_or_cancels_what_may_have_moved_money(each: Standing) -> None:
    for action in (TransferAction.RETRY, TransferAction.CANCEL):
        if objection(each, action) is None:
            assert each.state not in FINAL_TRANSFER_STATES
            assert not each.gone
            assert each.movement is None or harmless(each.movement)
    if objection(each, TransferAction.RETRY) is None:
        assert each.state is T.NEEDS_ATTENTION
        if each.movement is not None:
            assert each.movement.state in {R.FAILED, R.REJECTED, R.EXPIRED, R.CANCELLED}


@given(standings)
def test_closing_is_for_what_may_have_moved_and_cannot_go_on(each: Standing) -> None:
    if objection(each, TransferAction.CLOSE) is None:
        assert each.state is T.NEEDS_ATTENTION
        assert each.gone or (each.movement is not None and each.movement.final and not harmless(each.movement))


@given(standings)
def test_a_stopped_transfer_whose_movement_has_ended_always_has_a_way_out(each: Standing) -> None:
    ended = each.movement is None or (each.movement.final and each.movement.state is not R.COMPLETED)
    if each.state is T.NEEDS_ATTENTION and ended:
        assert possible_actions(each)


@pytest.mark.parametrize("state", [R.PENDING_APPROVAL, R.APPROVED, R.EXECUTING, R.WAITING_MANUAL_ACTION])
def test_a_movement_under_way_is_followed_and_not_doubled(state: RequestState) -> None:
    assert verdict(standing(state, N.READY), asks_left=9).step is Step.GO_ON
    moving = Standing(T.NEEDS_ATTENTION, has_movement=True, movement=standing(state, N.READY))
    assert "may still do it" in (objection(moving, TransferAction.RETRY) or "")


def test_a_failed_movement_with_an_open_attempt_is_not_retried() -> None:
    movement = standing(R.FAILED, N.FAILED, open_attempts={"first": [(1, "UNKNOWN")]})
    found = verdict(movement, asks_left=0)
    assert found.attention is Attention.MAY_HAVE_MOVED
    assert "attempt 1 is UNKNOWN" in found.because
    said = objection(Standing(T.NEEDS_ATTENTION, has_movement=True, movement=movement), TransferAction.RETRY)
    assert "settle the movement first" in (said or "")
