"""Who must agree to a movement, and whether somebody may add their word."""

from __future__ import annotations

from collections.abc import Iterable

from qtg_dagster.domain.plans import ApprovalPolicy


def same_person(one: str, other: str) -> bool:
    """Whether two names are one identity: case and surrounding space make no second person."""
    return _identity(one) == _identity(other)


def approver_objection(policy: ApprovalPolicy, *, requested_by: str, approved_by: Iterable[str], actor: str) -> str:
    """Why this actor's approval does not count; empty when it does."""
    if any(same_person(actor, other) for other in approved_by):
        return f"{actor} has approved it already; another person must"
    if not policy.self_approval and same_person(actor, requested_by):
        return f"{actor} asked for it, and nobody approves their own movement; another person must"
    if policy.approvers and not any(same_person(actor, other) for other in policy.approvers):
        return f"{actor} is not among its approvers: {', '.join(policy.approvers)}"
    return ""


def approvals_missing(policy: ApprovalPolicy, approved_by: Iterable[str]) -> int:
    """How many more different people must approve."""
    return max(0, policy.required - len({_identity(each) for each in approved_by}))


def _identity(name: str) -> str:
    return name.strip().casefold()
