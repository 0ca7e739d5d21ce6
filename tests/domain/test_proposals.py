"""Whose word counts for a proposed template version, what it is held to, and how it stands."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.errors import IllegalMove, PlanDrift
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.proposals import (
    NewProposal,
    Proposal,
    approval_objection,
    base_objection,
    plan_digest,
)
from qtg_dagster.domain.states import (
    INITIAL_PROPOSAL_STATE,
    PROPOSAL_MOVES,
    ProposalState,
    check_proposal_move,
)

NODE = {"node_key": "pay", "node_kind": "action", "action_type": "move", "executor_key": "exec.local.move"}
PLAN = Plan.model_validate({"template_key": "rent", "title": "Rent", "nodes": [NODE]})
NAMES = st.sampled_from(["ada", "Ada", " ada ", "grace", "GRACE", "heidi"])


def proposal(state: ProposalState = ProposalState.PENDING, **values: Any) -> Proposal:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    known: dict[str, Any] = {
        "proposal_id": "p",
        "network_class": "sandbox",
        "template_key": "rent",
        "based_on": 3,
        "document": PLAN.model_dump(mode="json"),
        "plan_digest": plan_digest(PLAN),
        "graph_hash": "g",
        "body_hash": "b",
        "proposed_by": "ada",
        "reason": "larger",
        "required": 2,
        "approved_by": ("grace",),
        "created_at": moment,
        "expires_at": moment,
        "expired": False,
        "decided_at": None,
        "decided_by": None,
        "decision_reason": None,
        "published_version": None,
    }
    return Proposal(state=state, **{**known, **values})


@pytest.mark.parametrize(("old", "new"), list(itertools.product(ProposalState, ProposalState)))
def test_every_pair_of_states_is_judged_by_the_table(old: ProposalState, new: ProposalState) -> None:
    if new in PROPOSAL_MOVES[old]:
        check_proposal_move(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"from {old} to {new}"):
            check_proposal_move(old, new)


def test_whatever_is_decided_stays_decided() -> None:
    assert set(PROPOSAL_MOVES) == set(ProposalState)
    assert {state for state, targets in PROPOSAL_MOVES.items() if targets} == {INITIAL_PROPOSAL_STATE}
    assert PROPOSAL_MOVES[INITIAL_PROPOSAL_STATE] == set(ProposalState) - {INITIAL_PROPOSAL_STATE}


@given(NAMES, st.lists(NAMES), NAMES)
def test_a_word_counts_once_a_person_and_never_the_proposers(by: str, before: list[str], actor: str) -> None:
    who = {name.strip().lower() for name in before}
    counts = actor.strip().lower() not in who | {by.strip().lower()}
    assert (approval_objection(proposed_by=by, approved_by=before, actor=actor) == "") == counts


@given(st.integers(0, 4), st.integers(0, 4))
def test_a_proposal_follows_the_version_that_it_was_made_from_and_no_other(based_on: int, newest: int) -> None:
    assert (base_objection("rent", based_on, newest) == "") == (based_on == newest)


def test_a_stored_plan_that_is_another_is_not_read() -> None:
    assert proposal().plan() == PLAN
    with pytest.raises(PlanDrift):
        proposal(document={**PLAN.model_dump(mode="json"), "title": "Other"}).plan()
    with pytest.raises(PlanDrift):
        proposal(template_key="other").plan()
    for unreadable in ({"what": "is this"}, {**PLAN.model_dump(mode="json"), "nodes": [NODE, NODE]}):
        with pytest.raises(PlanDrift, match="is no plan"):
            proposal(document=unreadable).plan()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (proposal(), "1 of 2 approvals"),
        (proposal(expired=True), "its window has closed"),
        (proposal(ProposalState.APPROVED, published_version=4, approved_by=("grace", "heidi")),
         "version 4, approved by grace, heidi"),
        (proposal(ProposalState.REJECTED, decided_by="heidi", decision_reason="no"), "rejected by heidi: no"),
        (proposal(ProposalState.EXPIRED, approved_by=()), "not approved in time; 0 of 2 approvals"),
    ],
)  # fmt: skip
def test_how_it_stands_is_said_in_words(found: Proposal, said: str) -> None:
    assert found.standing() == said


def test_under_one_key_there_is_one_content() -> None:
    def body(**values: Any) -> str:
        known = {"network_class": "sandbox", "plan": PLAN, "based_on": 1, "proposed_by": "ada", "reason": "why"}
        return NewProposal(**{**known, "required": 1, "ttl_seconds": 60, **values}).body_hash()

    others = [
        {"plan": PLAN.model_copy(update={"title": "Other"})},
        {"based_on": 2},
        {"proposed_by": "eve"},
        {"reason": "because"},
    ]
    assert len({body(), *(body(**other) for other in others)}) == 1 + len(others)
    assert body(required=2, ttl_seconds=1) == body(), "what the desk's settings say is no part of what was proposed"
