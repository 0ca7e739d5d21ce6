"""How a nonce stands, over every combination of what may be recorded and what a chain may say."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.nonces import ChainView, FillKind, Holder, ReservationState, Standing, judge
from qtg_dagster.domain.states import UNSETTLED_NODE_STATES, NodeState

R, N, A = ReservationState, NodeState, AttemptOutcome
HASH = "0x" + "ab" * 32
NONCE = 7

HOLDERS = [
    Holder(reservation, signed, state, claimed, recorded, outcome if recorded else None)
    for reservation, signed, state, claimed, recorded, outcome in product(
        (*R, None), (False, True), N, (False, True), (False, True), (*A, None)
    )
    if recorded or outcome is None
]
VIEWS = [
    None,
    *(
        ChainView(latest, pending, known, taker)
        for latest, pending, known, taker in product((6, 7, 8), (6, 7, 8), (False, True), (None, HASH))
        if pending >= latest and (taker is None or latest == 8)
    ),
]
EVERYTHING = list(product([None, *HOLDERS], VIEWS))
QUIET = ChainView(latest=7, pending=7, known=False)


def test_dead_is_said_only_when_nobody_on_our_side_could_send_and_no_chain_has_seen_it() -> None:
    dead = [(holder, view) for holder, view in EVERYTHING if judge(NONCE, holder, view).standing is Standing.DEAD]
    assert dead
    for holder, view in dead:
        assert holder is not None
        assert view is not None, "without the chain nothing is dead"
        assert view.latest <= NONCE
        assert view.pending <= NONCE
        assert not view.known
        assert view.taker is None
        assert not holder.claimed
        assert holder.node_state not in UNSETTLED_NODE_STATES | {N.COMPLETED}
        assert holder.outcome in (None, A.NOT_SENT, A.REJECTED)
        assert holder.reservation not in (R.FILLING, R.CLOSED)
        assert holder.signed or holder.recorded, "what was never signed needs no transaction"
        if holder.node_state not in (N.FAILED, N.CANCELLED, N.SKIPPED):
            assert holder.outcome is A.REJECTED


def test_a_nonce_is_filled_only_while_no_block_has_it_and_nobody_is_handing_it_over() -> None:
    for holder, view in EVERYTHING:
        found = judge(NONCE, holder, view)
        for kind in (found.fill, found.cancel):
            if kind is None:
                continue
            assert holder is not None
            assert view is not None
            assert view.latest <= NONCE
            assert not holder.claimed
            assert holder.node_state is not N.SUBMITTING
            assert holder.reservation not in (R.FILLING, R.CLOSED)
        assert (found.fill is None) == (found.standing is not Standing.DEAD)


def test_one_that_is_in_flight_is_cancelled_by_an_operators_word_alone_and_keeps_its_reservation() -> None:
    for holder, view in EVERYTHING:
        found = judge(NONCE, holder, view)
        if holder is not None and holder.node_state in UNSETTLED_NODE_STATES:
            assert found.fill is None
            assert found.cancel in (None, FillKind.CANCEL)
        elif found.cancel is not None:
            assert found.cancel is FillKind.DEAD


def test_used_is_said_exactly_when_a_final_block_has_it() -> None:
    for holder, view in EVERYTHING:
        used = view is not None and view.taker is not None
        assert (judge(NONCE, holder, view).standing is Standing.USED) is used


def test_free_is_said_only_of_what_nobody_holds_and_nobody_signed() -> None:
    for holder, view in EVERYTHING:
        if judge(NONCE, holder, view).standing is Standing.FREE:
            assert holder is None or (not holder.signed and holder.reservation in (None, R.RELEASED))
            assert view is None or view.pending <= NONCE


def test_every_judgement_says_why_and_what_to_do() -> None:
    for holder, view in EVERYTHING:
        found = judge(NONCE, holder, view)
        assert found.why
        assert found.to_do


@given(nonce=st.integers(0, 2**63), above=st.integers(0, 2**20), below=st.integers(0, 2**20))
def test_a_count_that_has_not_come_to_the_nonce_never_makes_it_used(nonce: int, above: int, below: int) -> None:
    holder = Holder(R.BOUND, True, N.CANCELLED, False, True, A.NOT_SENT)
    low = max(0, nonce - below)
    assert judge(nonce, holder, ChainView(low, low, False)).standing is Standing.DEAD
    assert judge(nonce, holder, ChainView(nonce + 1 + above, nonce + 1 + above, False)).standing is Standing.UNCERTAIN


@pytest.mark.parametrize(
    ("holder", "view", "standing"),
    [
        # Lost the race for a daily limit after its signature.
        (Holder(R.RESERVED, True, N.FAILED, False, False, None), QUIET, Standing.DEAD),
        # Called off between the signature and the intent.
        (Holder(R.RESERVED, True, N.CANCELLED, False, False, None), QUIET, Standing.DEAD),
        # Expired between intent and submission, then called off.
        (Holder(R.BOUND, True, N.CANCELLED, False, True, A.NOT_SENT), QUIET, Standing.DEAD),
        # No state of the chain takes the bytes; retried, and its second attempt waits for another nonce.
        (Holder(R.BOUND, True, N.READY, False, True, A.REJECTED), QUIET, Standing.DEAD),
        # Released while its worker slept, which woke up and signed: nobody's, and no one else can have it.
        (Holder(R.RELEASED, True, N.CANCELLED, False, False, None), QUIET, Standing.DEAD),
        (Holder(R.RESERVED, True, N.READY, False, False, None), QUIET, Standing.HELD),
        (Holder(R.RESERVED, False, N.CANCELLED, False, False, None), QUIET, Standing.HELD),
        (Holder(R.RESERVED, True, N.CANCELLED, True, False, None), QUIET, Standing.HELD),
        (Holder(R.BOUND, True, N.UNKNOWN, False, True, A.UNKNOWN), QUIET, Standing.UNCERTAIN),
        (Holder(R.BOUND, True, N.OBSERVING, False, True, A.ACCEPTED), QUIET, Standing.HELD),
        # Somebody broadcast what a dead process had signed.
        (Holder(R.RESERVED, True, N.CANCELLED, False, False, None), ChainView(7, 8, False), Standing.UNCERTAIN),
        (Holder(R.BOUND, True, N.CANCELLED, False, True, A.NOT_SENT), ChainView(7, 7, True), Standing.UNCERTAIN),
        (Holder(R.BOUND, True, N.CANCELLED, False, True, A.NOT_SENT), None, Standing.UNCERTAIN),
        (None, QUIET, Standing.FREE),
        (None, ChainView(7, 8, False), Standing.UNCERTAIN),
    ],
)
def test_the_cases_there_are(holder: Holder | None, view: ChainView | None, standing: Standing) -> None:
    assert judge(NONCE, holder, view).standing is standing
