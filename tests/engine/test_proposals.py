"""Template proposals on PostgreSQL: four eyes, one plan, one version, whoever decides at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from qtg_dagster.domain.errors import (
    ApprovalExpired,
    Conflict,
    InvalidInput,
    NotFound,
    PlanDrift,
    QtgError,
)
from qtg_dagster.domain.plans import Plan, RiskControls
from qtg_dagster.domain.proposals import Proposal, plan_digest
from qtg_dagster.domain.states import ProposalState
from qtg_dagster.engine.requests import create_movement, publish_template
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.store.templates import PlanVersions
from qtg_dagster.treasury.proposals import (
    ProposalOrder,
    ProposalReview,
    approve_proposal,
    expire_template_proposals,
    propose_template,
    reject_proposal,
    review_proposal,
)
from tests.engine.desk import Desk
from tests.engine.plans import LIMITS, chain, node, order_of, plan_of

#: Proposals, and audit entries about them.
TRACES = (
    "SELECT 1 FROM qtg.template_proposals UNION ALL "
    "SELECT 1 FROM qtg.audit_outbox WHERE subject_type = 'template_proposal'"
)
WIDER = chain().model_copy(
    update={"risk_controls": RiskControls(hard_cap="5000", destination_allowlist=("0xallowed", "0xnew"))}
)


def order(plan: Plan = WIDER, **values: Any) -> ProposalOrder:
    return ProposalOrder.read({"plan": plan, "based_on": 1, "proposed_by": "ada", "reason": "larger", **values})


async def proposed(desk: Desk, plan: Plan = WIDER, **values: Any) -> ProposalReview:
    """A proposal to change the published chain."""
    await publish_template(desk.engine, chain())
    return await propose_template(desk.engine, order(plan, **values))


async def approve(desk: Desk, review: ProposalReview, actor: str = "grace", **values: Any) -> Proposal:
    proposal = review.proposal
    values = {"plan_digest": proposal.plan_digest, **values}
    return await approve_proposal(desk.engine, proposal.proposal_id, actor=actor, **values)


async def versions(desk: Desk) -> int:
    [row] = await desk.rows("SELECT count(*) AS many FROM qtg.movement_plan_versions")
    return int(row["many"])


async def in_use(desk: Desk, key: str = "chain") -> tuple[int, Plan]:
    async with desk.engine.database.transaction() as tx:
        stored = await PlanVersions(tx).require_plan(key)
    return stored.version, stored.plan


async def everything(desk: Desk) -> list[Any]:
    """All rows that a decision may write."""
    tables = ("template_proposals", "template_proposal_decisions", "movement_plan_versions", "audit_outbox")
    return [await desk.rows(f"SELECT * FROM qtg.{table} ORDER BY id") for table in tables]  # noqa: S608


async def test_a_proposal_changes_nothing_until_another_person_approves_exactly_it(desk: Desk) -> None:
    review = await proposed(desk)
    assert review.created
    assert {change.path: change.danger for change in review.dangers} == {
        "risk_controls.hard_cap": "larger amounts are allowed",
        "risk_controls.destination_allowlist.0xnew": "money may go there, and could not",
    }
    assert await in_use(desk) == (1, chain())
    approved = await approve(desk, review, reason="fine")
    assert approved.state is ProposalState.APPROVED
    assert (approved.published_version, approved.decided_by, approved.approved_by) == (2, "grace", ("grace",))
    assert await in_use(desk) == (2, WIDER)
    receipt = await create_movement(desk.engine, order_of(WIDER, parameters={"amount": "4000"}))
    assert receipt.template_version == 2


async def test_the_trail_names_the_plan_and_what_it_loosens(desk: Desk) -> None:
    review = await proposed(desk)
    await approve(desk, review, reason="fine")
    trail = await desk.rows("SELECT * FROM qtg.audit_outbox WHERE subject_type = 'template_proposal' ORDER BY id")
    assert [(row["action"], row["actor"]) for row in trail] == [
        ("propose_template", "ada"),
        ("approve_template_proposal", "grace"),
    ]
    for row in trail:
        assert (row["subject_type"], row["subject_id"]) == ("template_proposal", review.proposal.proposal_id)
        assert row["details"]["plan_digest"] == plan_digest(WIDER)
        assert row["details"]["graph_hash"] == review.proposal.graph_hash
        assert row["details"]["loosens"]["risk_controls.hard_cap"] == "larger amounts are allowed"
    assert (trail[1]["details"]["version"], trail[1]["details"]["approvals"]) == (2, "1 of 1")
    [decision] = await desk.rows("SELECT decision, actor, plan_digest FROM qtg.template_proposal_decisions")
    assert decision == {"decision": "approved", "actor": "grace", "plan_digest": plan_digest(WIDER)}


@pytest.mark.parametrize("actor", ["ada", " ADA ", "Ada"])
async def test_the_proposers_own_approval_never_counts(desk: Desk, actor: str) -> None:
    review = await proposed(desk)
    before = await everything(desk)
    with pytest.raises(Conflict, match="nobody approves their own proposal"):
        await approve(desk, review, actor)
    assert await everything(desk) == before


async def test_so_many_different_people_must_approve_and_the_last_one_publishes(desk: Desk) -> None:
    desk.under(template_proposal_approvals=2)
    review = await proposed(desk)
    assert (await approve(desk, review, "grace")).standing() == "1 of 2 approvals"
    assert await versions(desk) == 1
    for again in ("grace", "GRACE "):
        with pytest.raises(Conflict, match="has approved it already"):
            await approve(desk, review, again)
    assert (await approve(desk, review, "heidi")).approved_by == ("grace", "heidi")
    assert await in_use(desk) == (2, WIDER)


async def test_a_setting_that_asks_for_fewer_later_does_not_ease_what_was_proposed_before(desk: Desk) -> None:
    desk.under(template_proposal_approvals=2)
    review = await proposed(desk)
    desk.under(template_proposal_approvals=1)
    assert (await approve(desk, review)).state is ProposalState.PENDING
    desk.under(template_proposal_approvals=3)
    assert (await approve(desk, review, "heidi")).state is ProposalState.PENDING
    assert (await approve(desk, review, "ivan")).state is ProposalState.APPROVED


@pytest.mark.parametrize("digest", ["", "0" * 64, plan_digest(chain())])
async def test_an_approval_of_something_else_is_refused(desk: Desk, digest: str) -> None:
    review = await proposed(desk)
    before = await everything(desk)
    with pytest.raises(Conflict, match="look at its differences again"):
        await approve(desk, review, plan_digest=digest)
    assert await everything(desk) == before


async def test_a_template_that_moved_meanwhile_makes_every_older_proposal_a_conflict(desk: Desk) -> None:
    desk.under(template_proposal_approvals=2)
    first = await proposed(desk)
    other = plan_of(*chain().nodes, edges=(("first", "watch"), ("watch", "last")), key="chain", title="Another")
    second = await propose_template(desk.engine, order(other))
    await approve(desk, first, "grace")
    await approve(desk, second, "grace")
    await approve(desk, first, "heidi")
    with pytest.raises(Conflict, match="chain is at version 2, and this is based on version 1"):
        await approve(desk, second, "heidi")
    assert "propose anew" in (await review_proposal(desk.engine, second.proposal.proposal_id)).outdated
    assert await in_use(desk) == (2, WIDER)
    with pytest.raises(Conflict, match="based on version 1"):
        await propose_template(desk.engine, order(other))
    rejected = await reject_proposal(desk.engine, second.proposal.proposal_id, actor="heidi", reason="outdated")
    assert rejected.state is ProposalState.REJECTED


async def test_a_rejection_is_final_and_says_why_and_the_proposer_may_withdraw(desk: Desk) -> None:
    review = await proposed(desk)
    with pytest.raises(InvalidInput, match="reason"):
        await reject_proposal(desk.engine, review.proposal.proposal_id, actor="grace", reason="  ")
    rejected = await reject_proposal(desk.engine, review.proposal.proposal_id, actor="ada", reason="a typo in it")
    assert rejected.standing() == "rejected by ada: a typo in it"
    before = await everything(desk)
    with pytest.raises(Conflict, match="is REJECTED"):
        await approve(desk, review)
    with pytest.raises(Conflict, match="is REJECTED"):
        await reject_proposal(desk.engine, review.proposal.proposal_id, actor="grace", reason="again")
    assert await everything(desk) == before
    assert await versions(desk) == 1


async def test_who_has_approved_may_still_reject(desk: Desk) -> None:
    desk.under(template_proposal_approvals=2)
    review = await proposed(desk)
    await approve(desk, review, "grace")
    rejected = await reject_proposal(desk.engine, review.proposal.proposal_id, actor="grace", reason="looked again")
    assert (rejected.state, rejected.decided_by) == (ProposalState.REJECTED, "grace")


async def test_the_same_key_and_proposal_is_the_same_one_and_another_is_refused(desk: Desk) -> None:
    first = await proposed(desk, idempotency_key="k")
    again = await propose_template(desk.engine, order(idempotency_key="k"))
    assert (again.created, again.proposal.proposal_id) == (False, first.proposal.proposal_id)
    for other in ({"reason": "other"}, {"proposed_by": "eve"}, {"based_on": 2}, {"plan": chain()}):
        with pytest.raises(Conflict, match="belongs to proposal"):
            await propose_template(desk.engine, order(idempotency_key="k", **other))
    await approve(desk, first)
    later = await propose_template(desk.engine, order(idempotency_key="k"))
    assert later.proposal.state is ProposalState.APPROVED, "also when the template has moved on since"
    assert len(await desk.rows("SELECT 1 FROM qtg.template_proposals")) == 1


async def test_many_that_propose_under_one_key_at_once_make_one(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    made = await asyncio.gather(*(propose_template(desk.engine, order(idempotency_key="k")) for _ in range(8)))
    assert len({review.proposal.proposal_id for review in made}) == 1
    assert sum(review.created for review in made) == 1
    assert len(await desk.rows("SELECT 1 FROM qtg.audit_outbox WHERE action = 'propose_template'")) == 1


@pytest.mark.parametrize(
    ("plan", "based_on", "kind", "said"),
    [
        (chain(), 1, Conflict, "says exactly this"),
        (WIDER, 0, Conflict, "is at version 1, and this is based on no version"),
        (WIDER, 7, Conflict, "based on version 7"),
        (WIDER.model_copy(update={"template_key": "elsewhere"}), 1, Conflict, "no version 1 of elsewhere"),
        (plan_of(node("first", executor="exec.local.gone"), key="gone"), 0, InvalidInput, "exec.local.gone"),
    ],
)
async def test_what_cannot_be_proposed_is_refused_and_leaves_nothing(
    desk: Desk, plan: Plan, based_on: int, kind: type[QtgError], said: str
) -> None:
    await publish_template(desk.engine, chain())
    with pytest.raises(kind, match=said):
        await propose_template(desk.engine, order(plan, based_on=based_on))
    assert await desk.rows(TRACES) == []


async def test_a_new_template_is_based_on_nothing_and_becomes_version_one(desk: Desk) -> None:
    review = await propose_template(desk.engine, order(plan_of(node("only"), key="fresh"), based_on=0))
    assert {change.before for change in review.changes} == {None}
    assert (await approve(desk, review)).published_version == 1
    assert (await in_use(desk, "fresh"))[0] == 1


async def test_an_action_whose_executor_is_gone_by_then_is_not_approved(desk: Desk) -> None:
    review = await propose_template(
        desk.engine, order(plan_of(node("only", executor="exec.local.keyed"), key="fresh"), based_on=0)
    )
    desk.engine = replace(desk.engine, executors=ExecutorRegistry())
    with pytest.raises(InvalidInput, match=r"exec\.local\.keyed"):
        await approve(desk, review)
    assert await versions(desk) == 0


async def test_a_plan_that_was_changed_behind_our_back_is_drift(desk: Desk) -> None:
    review = await proposed(desk)
    await desk.sql("ALTER TABLE qtg.template_proposals DISABLE TRIGGER keep_proposed")
    await desk.sql("UPDATE qtg.template_proposals SET plan = jsonb_set(plan, '{risk_controls,hard_cap}', '\"9999\"')")
    await desk.sql("ALTER TABLE qtg.template_proposals ENABLE TRIGGER keep_proposed")
    with pytest.raises(PlanDrift):
        await approve(desk, review)
    with pytest.raises(PlanDrift):
        await review_proposal(desk.engine, review.proposal.proposal_id)
    assert await versions(desk) == 1
    await reject_proposal(desk.engine, review.proposal.proposal_id, actor="grace", reason="tampered with")


@pytest.mark.parametrize("proposal_id", ["", "x", "00000000-0000-0000-0000-000000000000", "';--"])
async def test_a_proposal_that_is_not_there_is_not_found(desk: Desk, proposal_id: str) -> None:
    with pytest.raises(NotFound):
        await approve_proposal(desk.engine, proposal_id, plan_digest="", actor="grace")


async def test_another_network_class_is_another_world(desk: Desk) -> None:
    review = await proposed(desk)
    desk.under(network_class="mainnet")
    with pytest.raises(NotFound):
        await approve(desk, review)
    await close_windows(desk)
    assert await expire_template_proposals(desk.engine) == 0


async def test_a_decision_needs_a_name(desk: Desk) -> None:
    review = await proposed(desk)
    with pytest.raises(InvalidInput, match="actor"):
        await approve(desk, review, "  ")
    with pytest.raises(InvalidInput, match="proposed_by"):
        order(proposed_by=" ")
    with pytest.raises(InvalidInput, match="NUL"):
        order(reason="a\x00b")


# -- the window


async def close_windows(desk: Desk, ahead: str = "0 s") -> None:
    await desk.sql(
        "UPDATE qtg.template_proposals SET expires_at = clock_timestamp() + CAST(:ahead AS interval) "
        "WHERE proposal_state = 'PENDING'",
        ahead=ahead,
    )


async def test_after_its_window_nobody_decides_before_and_after_the_sweeper(desk: Desk) -> None:
    desk.under(template_proposal_approvals=2)
    review = await proposed(desk)
    await approve(desk, review, "grace")
    await close_windows(desk)
    for _ in range(2):
        with pytest.raises(ApprovalExpired):
            await approve(desk, review, "heidi")
        with pytest.raises(ApprovalExpired):
            await reject_proposal(desk.engine, review.proposal.proposal_id, actor="heidi", reason="no")
        await expire_template_proposals(desk.engine)
    found = (await review_proposal(desk.engine, review.proposal.proposal_id)).proposal
    assert (found.state, found.standing()) == (ProposalState.EXPIRED, "not approved in time; 1 of 2 approvals")
    [trail] = await desk.rows("SELECT * FROM qtg.audit_outbox WHERE action = 'expire_template_proposal'")
    assert (trail["actor"], trail["subject_id"]) == ("system:template_proposal_expiration", found.proposal_id)
    assert trail["details"]["plan_digest"] == plan_digest(WIDER)
    assert trail["details"]["approvals"] == "1 of 2"
    assert await versions(desk) == 1


async def test_a_heap_is_swept_by_many_at_once_and_each_is_on_record_once(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    await asyncio.gather(*(propose_template(desk.engine, order()) for _ in range(45)))
    await close_windows(desk)
    kept = await propose_template(desk.engine, order())
    assert sum(await asyncio.gather(*(expire_template_proposals(desk.engine) for _ in range(4)))) == 45
    trail = await desk.rows("SELECT subject_id FROM qtg.audit_outbox WHERE action = 'expire_template_proposal'")
    assert len({row["subject_id"] for row in trail}) == len(trail) == 45
    assert (await review_proposal(desk.engine, kept.proposal.proposal_id)).proposal.state is ProposalState.PENDING


async def test_one_that_is_being_decided_on_is_left_to_the_next_pass(desk: Desk) -> None:
    held, _ = await proposed(desk), await propose_template(desk.engine, order())
    async with desk.engine.database.transaction() as early:
        await early.exec_driver_sql("SELECT now()")  # its time stands still from here on, before the windows close
        await close_windows(desk)
        await approve(desk, held, transaction=early)
        assert await expire_template_proposals(desk.engine) == 1
    assert await expire_template_proposals(desk.engine) == 0
    assert await in_use(desk) == (2, WIDER)


async def test_at_the_last_moment_either_the_approval_or_the_expiry_wins(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    for number in range(15):
        plan = plan_of(node("only"), key=f"fresh_{number}")
        review = await propose_template(desk.engine, order(plan, based_on=0))
        await close_windows(desk, "3 ms")

        async def sweep(proposal_id: str = review.proposal.proposal_id) -> int:
            swept = 0
            while (await review_proposal(desk.engine, proposal_id)).proposal.state is ProposalState.PENDING:
                swept += await expire_template_proposals(desk.engine)
            return swept

        approved, *swept = await asyncio.gather(approve(desk, review), sweep(), sweep(), return_exceptions=True)
        found = (await review_proposal(desk.engine, review.proposal.proposal_id)).proposal
        published = await desk.rows("SELECT 1 FROM qtg.movement_templates WHERE template_key = :k", k=plan.template_key)
        if isinstance(approved, Proposal):
            assert (found.state, sum(swept), len(published)) == (ProposalState.APPROVED, 0, 1)
        else:
            assert isinstance(approved, ApprovalExpired), approved
            assert (found.state, sum(swept), len(published)) == (ProposalState.EXPIRED, 1, 0)


# -- races between people


async def test_of_many_approvals_at_once_exactly_the_needed_ones_count_and_one_version_comes_of_it(desk: Desk) -> None:
    desk.under(template_proposal_approvals=2)
    for number in range(5):
        plan = plan_of(node("only"), key=f"fresh_{number}")
        review = await propose_template(desk.engine, order(plan, based_on=0))
        people = ("grace", "GRACE", "heidi", "ivan", "ada")
        done = await asyncio.gather(*(approve(desk, review, each) for each in people), return_exceptions=True)
        assert all(isinstance(each, Proposal | Conflict) for each in done), done
        assert sum(isinstance(each, Proposal) for each in done) == 2
        assert isinstance(done[-1], Conflict)
        assert await versions(desk) == number + 1


async def test_of_two_proposals_for_one_template_approved_at_once_one_is_published(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    narrower = chain().model_copy(update={"risk_controls": LIMITS.model_copy(update={"hard_cap": "10"})})
    for _ in range(5):
        version, now = await in_use(desk)
        plans = [plan for plan in (WIDER, narrower, chain()) if plan.whole_text != now.whole_text]
        reviews = [await propose_template(desk.engine, order(plan, based_on=version)) for plan in plans]
        done = await asyncio.gather(*(approve(desk, review) for review in reviews), return_exceptions=True)
        assert sorted(type(each).__name__ for each in done) == ["Conflict", "Proposal"]
        assert (await in_use(desk))[0] == version + 1
        for review, outcome in zip(reviews, done, strict=True):
            if isinstance(outcome, Conflict):
                await reject_proposal(desk.engine, review.proposal.proposal_id, actor="heidi", reason="lost the race")


async def test_an_approval_and_a_rejection_at_once_leave_one_winner(desk: Desk) -> None:
    for number in range(8):
        plan = plan_of(node("only"), key=f"fresh_{number}")
        review = await propose_template(desk.engine, order(plan, based_on=0))
        reject = reject_proposal(desk.engine, review.proposal.proposal_id, actor="heidi", reason="no")
        done = await asyncio.gather(approve(desk, review), reject, return_exceptions=True)
        [won] = [each for each in done if isinstance(each, Proposal)]
        [_] = [each for each in done if isinstance(each, Conflict)]
        found = (await review_proposal(desk.engine, review.proposal.proposal_id)).proposal
        assert found.state is won.state
        assert (found.published_version is not None) == (won.state is ProposalState.APPROVED)


async def test_a_proposal_and_its_approval_are_part_of_the_callers_transaction(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    async with desk.engine.database.transaction() as tx:
        review = await propose_template(desk.engine, order(), transaction=tx)
        await approve(desk, review, transaction=tx)
        await tx.rollback()
    assert await versions(desk) == 1
    assert await desk.rows(TRACES) == []


# -- where templates change by proposal alone


async def test_direct_publishing_is_refused_with_the_way_to_propose_unless_nothing_changes(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    desk.under(templates_by_proposal_only=True)
    assert (await publish_template(desk.engine, chain())).version == 1
    with pytest.raises(Conflict, match=r"MG_TEMPLATES_BY_PROPOSAL_ONLY.*--based-on 1"):
        await publish_template(desk.engine, WIDER)
    with pytest.raises(Conflict, match="--based-on 0"):
        await publish_template(desk.engine, plan_of(node("only"), key="fresh"))
    assert await versions(desk) == 1
    assert (await approve(desk, await propose_template(desk.engine, order()))).published_version == 2
