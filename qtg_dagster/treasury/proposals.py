"""Proposed template versions: made by one person, approved by others, published with the last approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from qtg_dagster.domain.canonical import json_problem
from qtg_dagster.domain.errors import ApprovalExpired, Conflict, InvalidInput
from qtg_dagster.domain.plan_diff import Change, changes
from qtg_dagster.domain.plans import Frozen, Plan
from qtg_dagster.domain.proposals import (
    NEW_TEMPLATE,
    TEMPLATE_PROPOSAL_EXPIRATION,
    NewProposal,
    Proposal,
    approval_objection,
    base_objection,
    plan_digest,
)
from qtg_dagster.domain.states import ProposalState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.templates import check_executors
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.proposals import (
    expire_proposals,
    find_proposal,
    insert_proposal,
    move_proposal,
    read_proposal,
    write_decision,
)
from qtg_dagster.store.templates import PlanVersions

BATCH = 20
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]


class ProposalOrder(Frozen):
    """A template version that somebody proposes."""

    plan: Plan
    based_on: int = Field(default=NEW_TEMPLATE, ge=0, description="the version it was made from; 0 = a new template")
    proposed_by: Name
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None

    @classmethod
    def read(cls, document: Any) -> ProposalOrder:
        """Validate a document; raises `InvalidInput` for the first wrong field."""
        try:
            order = cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "proposal"
            raise InvalidInput(field, str(first["msg"]), "Correct it and propose again.") from None
        for field, value in order.model_dump(mode="json").items():
            problem = json_problem(value)
            if problem:
                raise InvalidInput(field, f"holds {problem}", "Give plain text.")
        return order


@dataclass(frozen=True, slots=True)
class ProposalReview:
    """A proposal and all that an approver must see of it."""

    proposal: Proposal
    plan: Plan
    changes: tuple[Change, ...]  # from the version that it is based on; those that loosen a control first
    newest: int  # the template's version in use; 0 = none
    created: bool = False  # by the call that gave this

    @property
    def outdated(self) -> str:
        """Why it cannot be approved any more though it waits; empty when it can."""
        waits = self.proposal.state is ProposalState.PENDING
        return base_objection(self.proposal.template_key, self.proposal.based_on, self.newest) if waits else ""

    @property
    def dangers(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.danger)


async def propose_template(
    engine: Engine, order: ProposalOrder, transaction: Transaction | None = None
) -> ProposalReview:
    """Store a template version that waits for approval; nothing of it is in use before.

    The same idempotency key and proposal gives the one that stands; another under the key raises `Conflict`, as does
    one that is not based on the newest version, or that changes nothing. `InvalidInput` when an action has no executor.
    """
    settings, plan = engine.settings, order.plan
    new = NewProposal(
        network_class=settings.network_class,
        plan=plan,
        based_on=order.based_on,
        proposed_by=order.proposed_by,
        reason=order.reason,
        required=settings.template_proposal_approvals,
        ttl_seconds=settings.template_proposal_ttl_seconds,
        idempotency_key=order.idempotency_key,
    )
    async with engine.database.within(transaction) as tx:
        standing = await _standing(tx, new)
        if standing is not None:
            return await _reviewed(tx, standing)
        check_executors(engine, plan)
        await _check_base(tx, plan, order.based_on)
        proposal_id = await insert_proposal(tx, new)
        if proposal_id is None:  # another has just stored it under the key
            standing = await _standing(tx, new)
            if standing is None:
                raise Conflict(
                    "another transaction has just stored a proposal under this idempotency_key, and yours began too "
                    "early to see it; roll back and propose again"
                )
            return await _reviewed(tx, standing)
        proposal = await read_proposal(tx, new.network_class, proposal_id)
        review = await _reviewed(tx, proposal, created=True)
        await _audit(tx, review, order.proposed_by, "propose_template", {"reason": order.reason})
        return review


async def approve_proposal(
    engine: Engine,
    proposal_id: str,
    *,
    plan_digest: str,
    actor: str,
    reason: str = "",
    transaction: Transaction | None = None,
) -> Proposal:
    """Approve exactly what the digest names; the last approval that is needed publishes it, in the same transaction.

    Raises `NotFound`; `Conflict` when it is decided, when this actor's word does not count, when the digest is another
    or when the template has another version by now; `ApprovalExpired` after its window; `PlanDrift` when what is stored
    is not what was proposed; `InvalidInput` when an action has no executor.
    """
    actor, network_class = _named(actor), engine.settings.network_class
    async with engine.database.within(transaction) as tx:
        proposal = await read_proposal(tx, network_class, proposal_id, lock=True)
        _check_open(proposal)
        if plan_digest.strip().lower() != proposal.plan_digest:
            raise Conflict(
                f"proposal {proposal_id} has the digest {proposal.plan_digest}, not the one that you approve; "
                "look at its differences again"
            )
        problem = approval_objection(proposed_by=proposal.proposed_by, approved_by=proposal.approved_by, actor=actor)
        if problem:
            raise Conflict(f"proposal {proposal_id}: {problem}")
        plan = proposal.plan()
        check_executors(engine, plan)
        await _check_base(tx, plan, proposal.based_on)
        await write_decision(tx, proposal, "approved", actor=actor, reason=reason)
        approvals = len(proposal.approved_by) + 1
        required = max(proposal.required, engine.settings.template_proposal_approvals)
        details: dict[str, Any] = {"approvals": f"{approvals} of {required}", "reason": reason}
        if approvals >= required:
            stored = await PlanVersions(tx).publish_plan(plan)
            await move_proposal(tx, proposal, ProposalState.APPROVED, plan_version_id=stored.plan_version_id)
            details["version"] = stored.version
        approved = await read_proposal(tx, network_class, proposal_id)
        await _audit(tx, await _reviewed(tx, approved), actor, "approve_template_proposal", details)
        return approved


async def reject_proposal(
    engine: Engine, proposal_id: str, *, actor: str, reason: str, transaction: Transaction | None = None
) -> Proposal:
    """Refuse a proposal for good; who made it may withdraw it so. Raises `NotFound`, `Conflict`, `ApprovalExpired`."""
    actor, network_class = _named(actor), engine.settings.network_class
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say why: it goes into the audit trail.")
    async with engine.database.within(transaction) as tx:
        proposal = await read_proposal(tx, network_class, proposal_id, lock=True)
        _check_open(proposal)
        await write_decision(tx, proposal, "rejected", actor=actor, reason=reason)
        await move_proposal(tx, proposal, ProposalState.REJECTED)
        # Also one whose plan cannot be read any more.
        await _audit_bare(tx, proposal, actor, "reject_template_proposal", {"reason": reason})
        return await read_proposal(tx, network_class, proposal_id)


async def review_proposal(engine: Engine, proposal_id: str) -> ProposalReview:
    """What a proposal changes, to be shown. Raises `NotFound`, `PlanDrift`."""
    async with engine.database.transaction() as tx:
        return await _reviewed(tx, await read_proposal(tx, engine.settings.network_class, proposal_id))


async def expire_template_proposals(engine: Engine) -> int:
    """PENDING -> EXPIRED for every proposal whose window has closed; says how many that were.

    One statement a batch: any number may sweep at once, and one that somebody decides on is left to the next pass.
    """
    actor, expired = f"system:{TEMPLATE_PROPOSAL_EXPIRATION}", 0
    while True:
        async with engine.database.transaction() as tx:
            batch = await expire_proposals(tx, engine.settings.network_class, actor=actor, batch=BATCH)
        expired += batch
        if batch < BATCH:
            return expired


def _named(actor: str) -> str:
    if not actor.strip():
        raise InvalidInput("actor", "is empty", "Say who decides: it goes into the audit trail.")
    return actor.strip()


def _check_open(proposal: Proposal) -> None:
    if proposal.state is ProposalState.EXPIRED or (proposal.state is ProposalState.PENDING and proposal.expired):
        raise ApprovalExpired(f"proposal {proposal.proposal_id} was open until {proposal.expires_at}; propose it anew")
    if proposal.state is not ProposalState.PENDING:
        raise Conflict(f"proposal {proposal.proposal_id} is {proposal.state}: {proposal.standing()}")


async def _standing(tx: Transaction, new: NewProposal) -> Proposal | None:
    """The proposal that stands under the order's key, if it has one; another proposal under it is a `Conflict`."""
    if new.idempotency_key is None:
        return None
    found = await find_proposal(tx, new.network_class, new.idempotency_key)
    if found is not None and found.body_hash != new.body_hash():
        raise Conflict(
            f"idempotency_key {new.idempotency_key!r} belongs to proposal {found.proposal_id} with another content"
        )
    return found


async def _check_base(tx: Transaction, plan: Plan, based_on: int) -> None:
    """Raise `Conflict` unless the plan changes the version it was made from, and that is the newest until we commit."""
    versions = PlanVersions(tx)
    await versions.hold_template(plan.template_key)
    newest = await versions.find_plan(plan.template_key)
    problem = base_objection(plan.template_key, based_on, newest.version if newest else NEW_TEMPLATE)
    if problem:
        raise Conflict(problem)
    if newest is not None and plan_digest(newest.plan) == plan_digest(plan):
        raise Conflict(f"{plan.template_key} version {newest.version} says exactly this; there is nothing to propose")


async def _reviewed(tx: Transaction, proposal: Proposal, *, created: bool = False) -> ProposalReview:
    versions, plan = PlanVersions(tx), proposal.plan()
    newest = await versions.find_plan(proposal.template_key)
    base = await versions.plan_of_version(proposal.template_key, proposal.based_on) if proposal.based_on else None
    return ProposalReview(proposal, plan, changes(base, plan), newest.version if newest else NEW_TEMPLATE, created)


async def _audit(tx: Transaction, review: ProposalReview, actor: str, action: str, details: dict[str, Any]) -> None:
    dangers = {change.path: change.danger for change in review.dangers}
    await _audit_bare(tx, review.proposal, actor, action, {**details, "loosens": dangers})


async def _audit_bare(tx: Transaction, proposal: Proposal, actor: str, action: str, details: dict[str, Any]) -> None:
    await audit(
        tx,
        network_class=proposal.network_class,
        actor=actor,
        action=action,
        subject_type="template_proposal",
        subject_id=proposal.proposal_id,
        details={
            "template_key": proposal.template_key,
            "based_on": proposal.based_on,
            "plan_digest": proposal.plan_digest,
            "graph_hash": proposal.graph_hash,
            **details,
        },
    )
