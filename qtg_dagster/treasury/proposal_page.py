"""A proposal as tables, the same on the command line and on a run's page. What loosens a control comes first."""

from __future__ import annotations

from collections.abc import Iterator

from qtg_dagster.domain.plan_diff import Change
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.domain.states import ProposalState
from qtg_dagster.treasury.proposals import ProposalReview
from qtg_dagster.treasury.review_page import Row, Section, visible

_MARKS = {True: "!", False: ""}


def proposal_sections(review: ProposalReview) -> tuple[Section, ...]:
    """All there is to see of a proposal; a section without a row says so in one."""
    return (
        _section("warnings", ("warning",), _warnings(review)),
        _section("proposal", ("", ""), _about(review)),
        _section("changes", ("", "what", "from", "to", "it loosens"), map(_change, review.changes)),
    )


def _section(title: str, head: Row, rows: Iterator[Row]) -> Section:
    found = tuple(tuple(map(visible, row)) for row in rows)
    return Section(title, head, found or (("none", *("" for _ in head[1:])),))


def _warnings(review: ProposalReview) -> Iterator[Row]:
    if review.outdated:
        yield (f"it cannot be approved: {review.outdated}",)
    if review.proposal.state is ProposalState.PENDING and review.proposal.expired:
        yield (f"it cannot be approved: its window closed at {review.proposal.expires_at:%Y-%m-%d %H:%M:%S} UTC",)
    for change in review.dangers:
        yield (f"{change.path}: {change.danger}",)


def _about(review: ProposalReview) -> Iterator[Row]:
    proposal = review.proposal
    yield "proposal", proposal.proposal_id
    yield "template", f"{proposal.name}: {review.plan.title}"
    yield "in use", f"version {review.newest}" if review.newest else "nothing yet"
    yield "state", f"{proposal.state}: {proposal.standing()}"
    yield "proposed by", f"{proposal.proposed_by}: {proposal.reason}"
    yield "approved by", ", ".join(proposal.approved_by) or "nobody yet"
    yield "open until", f"{proposal.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "digest", proposal.plan_digest
    yield "graph hash", proposal.graph_hash


def _change(change: Change) -> Row:
    return _MARKS[bool(change.danger)], change.path, _side(change.before), _side(change.after), change.danger


def _side(text: str | None) -> str:
    if text is None:
        return "—"
    return redact_text(text) if text else '""'
