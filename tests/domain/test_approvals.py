"""Whose word counts: distinct people, not who asked, and as many as the template asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.approvals import approvals_missing, approver_objection, same_person
from qtg_dagster.domain.errors import PlanInvalid
from qtg_dagster.domain.plans import ApprovalPolicy, NodeKind, Plan, PlanNode, movement_hashes

NAMES = st.text("abcdefgh", min_size=1, max_size=6)


def objection(policy: ApprovalPolicy, actor: str, *before: str, asked: str = "ada") -> str:
    return approver_objection(policy, requested_by=asked, approved_by=before, actor=actor)


@pytest.mark.parametrize("actor", ["ada", "Ada", " ADA "])
def test_nobody_approves_what_they_asked_for(actor: str) -> None:
    assert "their own movement" in objection(ApprovalPolicy(), actor)
    assert objection(ApprovalPolicy(self_approval=True), actor) == ""


@pytest.mark.parametrize("again", ["grace", "GRACE", "grace "])
def test_a_second_word_of_one_person_does_not_count(again: str) -> None:
    assert "has approved it already" in objection(ApprovalPolicy(required=2), again, "grace")


def test_where_approvers_are_named_only_they_count() -> None:
    policy = ApprovalPolicy(required=2, approvers=("grace", "Heidi", "ivan"))
    assert objection(policy, "heidi") == ""
    assert "not among its approvers" in objection(policy, "mallory")


@given(st.integers(1, 5), st.lists(NAMES, max_size=8))
def test_an_approval_is_complete_with_so_many_different_people(required: int, words: list[str]) -> None:
    policy, counted = ApprovalPolicy(required=required), list[str]()
    for word in words:
        spelt = word.upper() if len(counted) % 2 else f" {word}"
        if objection(policy, spelt, *counted, asked="nobody else") == "":
            counted.append(spelt)
    different = {word.casefold() for word in words}
    assert len(counted) == len(different)
    assert approvals_missing(policy, counted) == max(0, required - len(different))
    assert all(not same_person(a, b) for i, a in enumerate(counted) for b in counted[:i])


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"required": 3, "approvers": ("grace", "heidi")}, "approval.required"),
        ({"approvers": ("grace", "Grace ")}, "approval.approvers"),
        ({"approvers": (" ",)}, "approval.approvers"),
    ],
)
def test_a_policy_that_nobody_can_meet_is_refused(policy: dict[str, object], field: str) -> None:
    with pytest.raises(PlanInvalid) as refused:
        ApprovalPolicy.model_validate(policy)
    assert refused.value.field == field


def hashes(plan: Plan) -> tuple[str, str]:
    return tuple(movement_hashes(plan, {}, {}, {}))  # type: ignore[return-value]


def test_an_approval_policy_is_part_of_what_is_approved_and_not_of_the_graph() -> None:
    node = PlanNode(node_key="one", node_kind=NodeKind.OBSERVE, action_type="look", executor_key="exec.local.look")
    plan = Plan(template_key="one", title="one", nodes=(node,))
    stricter = plan.model_copy(update={"approval": ApprovalPolicy(required=2)})
    assert hashes(plan)[0] == hashes(stricter)[0]
    assert hashes(plan)[1] != hashes(stricter)[1]


def test_a_plan_that_says_nothing_of_approval_keeps_the_digest_it_always_had() -> None:
    node = PlanNode(node_key="one", node_kind=NodeKind.OBSERVE, action_type="look", executor_key="exec.local.look")
    assert '"approval"' not in Plan(template_key="one", title="one", nodes=(node,)).whole_text
