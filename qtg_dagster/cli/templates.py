"""`qtg template`: look at templates, propose new versions, and decide on them, by the same functions as the jobs."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from qtg_dagster.cli.movement_review import show as show_section
from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from qtg_dagster.domain.proposals import Proposal
    from qtg_dagster.engine.parts import Engine

_MOST = 1000


@click.group()
def template() -> None:
    """Look at templates, propose new versions of them, approve or reject what others propose."""


@template.command("list")
def list_() -> None:
    """Templates with their version in use and how many proposals wait."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.proposals import read_proposals
        from qtg_dagster.store.templates import PlanVersions

        async with engine.database.transaction() as transaction:
            versions = PlanVersions(transaction)
            found = [await versions.find_plan(key) for key in await versions.template_keys()]
            pending = await read_proposals(transaction, engine.settings.network_class, most=_MOST)
        waiting = [proposal.template_key for proposal in pending]
        for stored in found:
            if stored is not None:
                plan, many = stored.plan, waiting.count(stored.plan.template_key)
                proposed = f"  {many} proposed" if many else ""
                click.echo(f"{plan.template_key:32} version {stored.version:<4} {_plain(plan.title)}{proposed}")
        if not any(found):
            click.echo("there is no template yet")

    run(work)


@template.command()
@click.argument("template_key")
@click.option("--version", type=click.IntRange(min=1), default=None, help="another version than the one in use")
def show(template_key: str, version: int | None) -> None:
    """Print TEMPLATE_KEY as YAML: edit it, then `qtg template propose` it, based on the version in the first line."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.domain.proposals import plan_digest
        from qtg_dagster.store.templates import PlanVersions
        from qtg_dagster.treasury.template_documents import write_plan

        async with engine.database.transaction() as transaction:
            stored = await PlanVersions(transaction).require_plan(template_key, version)
        click.echo(f"# version {stored.version}, digest {plan_digest(stored.plan)}")
        click.echo(write_plan(stored.plan), nl=False)

    run(work)


@template.command()
@click.argument("file", type=click.File())
@click.option("--based-on", type=click.IntRange(min=0), default=0, help="the version it was made from; 0 = it is new")
@click.option("--by", "proposed_by", required=True, help="who proposes it; cannot approve it")
@click.option("--reason", required=True, help="why; goes into the audit trail")
@click.option("--key", "idempotency_key", default=None, help="same key and proposal = the same proposal")
def propose(file: IO[str], based_on: int, proposed_by: str, reason: str, idempotency_key: str | None) -> None:
    """Propose the template in FILE (YAML or JSON, - = standard input); it then waits for approval."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.proposals import ProposalOrder, propose_template
        from qtg_dagster.treasury.template_documents import read_plan

        order = ProposalOrder.read(
            {
                "plan": read_plan(file.read(), field=file.name),
                "based_on": based_on,
                "proposed_by": proposed_by,
                "reason": reason,
                "idempotency_key": idempotency_key,
            }
        )
        review = await propose_template(engine, order)
        click.echo(review.proposal.proposal_id)
        said = "proposed" if review.created else "stands already"
        click.echo(f"{said}; {len(review.changes)} changes, {len(review.dangers)} loosen a control", err=True)
        for change in review.dangers:
            click.echo(f"  {_plain(change.path)}: {change.danger}", err=True)
        click.echo(f"open until {review.proposal.expires_at}; digest {review.proposal.plan_digest}", err=True)

    run(work)


@template.command()
@click.option("--all", "everything", is_flag=True, help="decided and expired ones too")
@click.option("--most", default=50, show_default=True, type=click.IntRange(1, _MOST))
def proposals(everything: bool, most: int) -> None:
    """Proposals that wait for approval, newest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.proposals import read_proposals

        async with engine.database.transaction() as transaction:
            found = await read_proposals(transaction, engine.settings.network_class, pending=not everything, most=most)
        for proposal in found:
            click.echo(_line(proposal))
        if not found:
            click.echo("no proposal" if everything else "no proposal waits")

    run(work)


@template.command()
@click.argument("proposal_id")
def diff(proposal_id: str) -> None:
    """All that PROPOSAL_ID changes, what loosens a control first, and the digest to approve it by."""
    from qtg_dagster.treasury.proposal_page import proposal_sections

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.proposals import review_proposal

        for section in proposal_sections(await review_proposal(engine, proposal_id)):
            show_section(section)

    run(work)


@template.command()
@click.argument("proposal_id")
@click.option("--digest", "plan_digest", required=True, help="of what you looked at, as `qtg template diff` shows it")
@click.option("--by", "actor", required=True, help="who approves; not who proposed it")
@click.option("--reason", default="")
def approve(proposal_id: str, plan_digest: str, actor: str, reason: str) -> None:
    """Approve PROPOSAL_ID; with the last approval it needs, it is the template's newest version at once."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.proposals import approve_proposal

        approved = await approve_proposal(engine, proposal_id, plan_digest=plan_digest, actor=actor, reason=reason)
        click.echo(f"{approved.template_key}: {_plain(approved.standing())}")

    run(work)


@template.command()
@click.argument("proposal_id")
@click.option("--by", "actor", required=True, help="who rejects; the proposer may, to withdraw it")
@click.option("--reason", required=True, help="why; goes into the audit trail")
def reject(proposal_id: str, actor: str, reason: str) -> None:
    """Refuse PROPOSAL_ID for good."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.proposals import reject_proposal

        rejected = await reject_proposal(engine, proposal_id, actor=actor, reason=reason)
        click.echo(f"{rejected.template_key}: {_plain(rejected.standing())}")

    run(work)


def _line(proposal: Proposal) -> str:
    state = f"{proposal.state:8} {proposal.name}; {proposal.standing()}; by {proposal.proposed_by}: {proposal.reason}"
    return f"{proposal.proposal_id}  {_plain(state)}"


def _plain(text: str) -> str:
    from qtg_dagster.treasury.review_page import visible

    return visible(text)
