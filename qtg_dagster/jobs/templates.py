"""Template proposals as jobs for the launchpad: propose, look at, approve, reject."""

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.movements import plan_picture
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.jobs.review import shown
from qtg_dagster.treasury.proposal_page import proposal_sections
from qtg_dagster.treasury.proposals import ProposalOrder, ProposalReview, review_proposal
from qtg_dagster.treasury.proposals import approve_proposal as approve
from qtg_dagster.treasury.proposals import propose_template as propose
from qtg_dagster.treasury.proposals import reject_proposal as reject
from qtg_dagster.treasury.template_documents import read_plan
from resources import PlatformResource


class NewVersion(dg.Config):
    """A template version to propose; nothing of it is in use before others have approved it."""

    document: str = Field(min_length=1, description="the whole template as YAML or JSON")
    based_on: int = Field(default=0, ge=0, description="the version it was made from; 0 = the template is new")
    proposed_by: str = Field(min_length=1, description="who proposes it, and cannot approve it")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")
    idempotency_key: str | None = Field(default=None, description="the same key and proposal give the same proposal")


class ProposalToSee(dg.Config):
    """A proposal to look at."""

    proposal_id: str = Field(description="the proposal's id, as propose_template shows it")


class ProposalApproval(dg.Config):
    """One person's yes to exactly one plan."""

    proposal_id: str = Field(description="the proposal's id")
    plan_digest: str = Field(description="digest of what you looked at, as review_template_proposal shows it")
    actor: str = Field(min_length=1, description="who approves, not who proposed it; goes into the audit trail")
    reason: str = Field(default="", description="why; goes into the audit trail")


class ProposalRejection(dg.Config):
    """One person's no, which is final."""

    proposal_id: str = Field(description="the proposal's id")
    actor: str = Field(min_length=1, description="who rejects; the proposer may, to withdraw it")
    reason: str = Field(min_length=1, description="why; goes into the audit trail")


@dg.op(
    name="propose",
    out=dg.Out(dg.Nothing),
    description="Propose a template version: it waits for approval, with all that it changes shown.",
)
async def propose_one(context: dg.OpExecutionContext, config: NewVersion, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        values = config.model_dump(exclude={"document"})
        order = ProposalOrder.read({"plan": read_plan(config.document), **values})
        async with platform.open() as parts:
            _show(context, await propose(parts.engine, order))


@dg.op(
    name="review_proposal",
    out=dg.Out(dg.Nothing),
    description="Show what a proposed template version changes, what loosens a control first. Changes nothing.",
)
async def review_one(context: dg.OpExecutionContext, config: ProposalToSee, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            _show(context, await review_proposal(parts.engine, config.proposal_id))


@dg.op(
    name="approve_proposal",
    out=dg.Out(dg.Nothing),
    description="Approve a template proposal: with the last approval it needs, it is the newest version at once.",
)
async def approve_one(context: dg.OpExecutionContext, config: ProposalApproval, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            approved = await approve(
                parts.engine,
                config.proposal_id,
                plan_digest=config.plan_digest,
                actor=config.actor,
                reason=config.reason,
            )
            context.log.info(f"{approved.template_key}: {approved.standing()}")
            _show(context, await review_proposal(parts.engine, config.proposal_id))


@dg.op(name="reject_proposal", out=dg.Out(dg.Nothing), description="Refuse a template proposal for good.")
async def reject_one(context: dg.OpExecutionContext, config: ProposalRejection, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            rejected = await reject(parts.engine, config.proposal_id, actor=config.actor, reason=config.reason)
    context.add_output_metadata(
        {"proposal id": rejected.proposal_id, "template": rejected.name, "state": rejected.standing()}
    )


def _show(context: dg.OpExecutionContext, review: ProposalReview) -> None:
    proposal = review.proposal
    context.add_output_metadata(
        {
            "proposal id": proposal.proposal_id,
            "plan digest": proposal.plan_digest,
            "state": proposal.state.value,
            "loosens": len(review.dangers),
            **{section.title: shown(section) for section in proposal_sections(review)},
            "plan": dg.MetadataValue.md(plan_picture(review.plan)),
        }
    )


@dg.job(executor_def=dg.in_process_executor, description=propose_one.description)
def propose_template() -> None:
    propose_one()


@dg.job(executor_def=dg.in_process_executor, description=review_one.description)
def review_template_proposal() -> None:
    review_one()


@dg.job(executor_def=dg.in_process_executor, description=approve_one.description)
def approve_template_proposal() -> None:
    approve_one()


@dg.job(executor_def=dg.in_process_executor, description=reject_one.description)
def reject_template_proposal() -> None:
    reject_one()


proposal_jobs = (propose_template, review_template_proposal, approve_template_proposal, reject_template_proposal)
