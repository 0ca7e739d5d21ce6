"""Over all that can be known of an old CCIP send: it ends only by proof, and is shown to people when there is none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.ccip_sends import (
    INITIAL_SEND_STATE,
    SEND_MOVES,
    OldSend,
    Resolution,
    SendState,
    check_send_move,
    is_selector,
    judge,
)
from qtg_dagster.domain.errors import IllegalMove
from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.states import NodeState

S, O = SendState, AttemptOutcome  # noqa: E741
PROVEN = {
    O.NOT_SENT: Resolution.WITHOUT_EFFECT,
    O.REJECTED: Resolution.WITHOUT_EFFECT,
    O.FAILED: Resolution.WITHOUT_EFFECT,
    O.COMPLETED: Resolution.TOOK_EFFECT,
}
sends = st.builds(
    OldSend,
    state=st.sampled_from(S),
    node_state=st.sampled_from(NodeState),
    being_worked=st.booleans(),
    outcome=st.none() | st.sampled_from(O),
    evidence_step_id=st.none() | st.integers(1, 9),
)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(S, S)))
def test_every_pair_of_states_is_judged_by_the_table(old: SendState, new: SendState) -> None:
    if new in SEND_MOVES[old]:
        check_send_move(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"from {old} to {new}"):
            check_send_move(old, new)


def test_the_table_names_every_state_and_only_the_proven_end_is_one() -> None:
    assert set(SEND_MOVES) == set(S)
    assert {state for state, targets in SEND_MOVES.items() if not targets} == {S.RESOLVED}
    assert INITIAL_SEND_STATE not in set().union(*SEND_MOVES.values())


@given(sends)
def test_an_end_is_said_exactly_when_its_own_attempt_proves_it(send: OldSend) -> None:
    found = judge(send)
    proven = send.outcome in PROVEN and send.evidence_step_id is not None and send.state is not S.RESOLVED
    assert (found is not None and found.to_state is S.RESOLVED) == proven
    if proven:
        assert found is not None
        assert send.outcome is not None
        assert found.resolution is PROVEN[send.outcome]
        assert found.evidence_step_id == send.evidence_step_id


@given(sends)
def test_whatever_is_judged_is_a_legal_move(send: OldSend) -> None:
    found = judge(send)
    if found is not None:
        check_send_move(send.state, found.to_state)


@given(sends)
def test_without_proof_it_is_stranded_once_and_never_while_somebody_works_on_it(send: OldSend) -> None:
    found = judge(send)
    if found is not None and found.to_state is S.STRANDED:
        assert send.state in (S.INTENT, S.SENT)
        assert not send.being_worked
        assert (found.resolution, found.evidence_step_id) == (None, None)


@given(sends)
def test_the_node_s_state_decides_nothing_by_itself(send: OldSend) -> None:
    verdicts = {judge(OldSend(send.state, state, send.being_worked, send.outcome, send.evidence_step_id))
                for state in NodeState}  # fmt: skip
    assert len(verdicts) == 1


def test_selectors_are_unsigned_64_bit_numbers() -> None:
    assert is_selector(15971525489660198786)  # Base's: above what a signed one holds
    assert not is_selector(-1)
    assert not is_selector(2**64)
