"""Template versions that somebody proposes and others approve: whose word counts, and for exactly what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from qtg_dagster.domain.approvals import same_person
from qtg_dagster.domain.canonical import digest, digest_text
from qtg_dagster.domain.errors import PlanDrift, PlanInvalid
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.states import ProposalState

#: The worker that ends what nobody decided in time.
TEMPLATE_PROPOSAL_EXPIRATION = "template_proposal_expiration"
#: What a proposal is based on when the template does not exist yet.
NEW_TEMPLATE = 0


def plan_digest(plan: Plan) -> str:
    """Identity of all that a template version says, timeouts, limits and approval policy included."""
    return digest_text("qtg.template.v1", plan.whole_text)


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A validated proposal, ready to be stored."""

    network_class: str
    plan: Plan
    based_on: int
    proposed_by: str
    reason: str
    required: int
    ttl_seconds: int
    idempotency_key: str | None = None

    def body_hash(self) -> str:
        """Identity of what is proposed: under one idempotency key there is only one."""
        body = {"plan": plan_digest(self.plan), "based_on": self.based_on, "by": self.proposed_by, "why": self.reason}
        return digest("qtg.proposal.v1", body)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal as it is stored. `document` is what was proposed; `plan()` reads it."""

    proposal_id: str
    network_class: str
    template_key: str
    based_on: int
    state: ProposalState
    document: Mapping[str, Any]
    plan_digest: str
    graph_hash: str
    body_hash: str
    proposed_by: str
    reason: str
    required: int  # approvals, as asked for when it was made
    approved_by: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    expired: bool  # its window has closed, whether or not that is on record yet
    decided_at: datetime | None
    decided_by: str | None  # who rejected it, or approved it last
    decision_reason: str | None
    published_version: int | None

    def plan(self) -> Plan:
        """The proposed plan; raises `PlanDrift` when the stored one is not the one whose digest stands beside it."""
        try:
            plan = Plan.model_validate(self.document)
        except (ValidationError, PlanInvalid) as error:
            raise PlanDrift(f"proposal {self.proposal_id}: what is stored is no plan: {error}") from None
        if plan_digest(plan) != self.plan_digest or plan.template_key != self.template_key:
            raise PlanDrift(f"proposal {self.proposal_id}: the plan changed after it was proposed")
        return plan

    @property
    def name(self) -> str:
        """For people: which template, from which version."""
        origin = f"based on version {self.based_on}" if self.based_on else "a new template"
        return f"{self.template_key}, {origin}"

    def standing(self) -> str:
        """For people: how far it has come."""
        match self.state:
            case ProposalState.PENDING if self.expired:
                return "its window has closed"
            case ProposalState.PENDING:
                return f"{len(self.approved_by)} of {self.required} approvals"
            case ProposalState.APPROVED:
                return f"version {self.published_version}, approved by {', '.join(self.approved_by)}"
            case ProposalState.REJECTED:
                return f"rejected by {self.decided_by}: {self.decision_reason}"
            case ProposalState.EXPIRED:
                return f"not approved in time; {len(self.approved_by)} of {self.required} approvals"


def approval_objection(*, proposed_by: str, approved_by: Iterable[str], actor: str) -> str:
    """Why this actor's approval does not count; empty when it does. Four eyes: the proposer's own never does."""
    if same_person(actor, proposed_by):
        return f"{actor} proposed it, and nobody approves their own proposal; another person must"
    if any(same_person(actor, other) for other in approved_by):
        return f"{actor} has approved it already; another person must"
    return ""


def base_objection(template_key: str, based_on: int, newest: int) -> str:
    """Why a proposal made from one version cannot follow the newest one; empty when it can. 0 = there is none."""
    if based_on == newest:
        return ""
    if newest == NEW_TEMPLATE:
        return f"there is no version {based_on} of {template_key} in use; propose it as a new template, based on 0"
    origin = f"version {based_on}" if based_on else "no version"
    return (
        f"{template_key} is at version {newest}, and this is based on {origin}; "
        f"look at version {newest} and propose anew from it"
    )
