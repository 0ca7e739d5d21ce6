"""`qtg nonce`: nonces that are held or dead, and filling them, by the same functions as the web UI's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run_on_platform

if TYPE_CHECKING:
    from qtg_dagster.composition import Platform
    from qtg_dagster.upkeep.nonce_desk import NonceDesk
    from qtg_dagster.upkeep.nonce_views import FillPlan, Judged

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
_reason = click.option("--reason", required=True, help="why; goes into the audit trail")


@click.group()
def nonce() -> None:
    """See which nonces our accounts hold on EVM chains, and use up those that nobody will use."""


@nonce.command("list")
@click.option("--chain", default=None, help="CAIP-2, e.g. eip155:1")
@click.option("--sender", default=None, help="0x address")
def list_(chain: str | None, sender: str | None) -> None:
    """Every nonce that is held, dead or uncertain: why, by which node, since when, and what to do. Asks the chains."""

    async def work(platform: Platform) -> None:
        found = await _desk(platform).survey(chain=chain, sender=sender)
        for judged in found:
            _show(judged)
        if not found:
            click.echo("no nonce is held")

    run_on_platform(work)


@nonce.command()
@click.argument("chain")
@click.argument("sender")
@click.argument("nonce_", metavar="NONCE", type=click.IntRange(min=0))
@_by
@_reason
@click.option("--cancel", is_flag=True, help="also call off a transaction that is under way, as long as none is mined")
@click.option("--dry-run", is_flag=True, help="show what would be signed, and stop")
@click.option("--yes", is_flag=True, help="do not ask before signing")
def fill(chain: str, sender: str, nonce_: int, actor: str, reason: str, cancel: bool, dry_run: bool, yes: bool) -> None:
    """Use up NONCE of SENDER on CHAIN: nothing is sent from the sender to itself. Asking again goes on with it."""

    async def work(platform: Platform) -> None:
        desk = _desk(platform)
        plan = await desk.plan(chain, sender, nonce_, cancel=cancel)
        _show(plan.judged)
        click.echo(f"  {_what(plan)}")
        if dry_run:
            return
        if not yes:
            click.confirm("Go on?", abort=True)
        filling = await desk.fill(chain, sender, nonce_, actor=actor, reason=reason, cancel=cancel)
        click.echo(f"  {filling.told()}")

    run_on_platform(work)


@nonce.command()
@click.argument("chain")
@click.argument("sender")
@click.argument("nonce_", metavar="NONCE", type=click.IntRange(min=0))
@_by
@_reason
def acknowledge(chain: str, sender: str, nonce_: int, actor: str, reason: str) -> None:
    """Say that a transaction which was mined although its node had ended is dealt with."""

    async def work(platform: Platform) -> None:
        await _desk(platform).acknowledge(chain, sender, nonce_, actor=actor, reason=reason)
        click.echo(f"nonce {nonce_} of {sender} on {chain} is acknowledged")

    run_on_platform(work)


def _desk(platform: Platform) -> NonceDesk:
    from qtg_dagster.upkeep.nonce_desk import NonceDesk

    return NonceDesk(platform.engine, platform.nonce_chain)


def _show(judged: Judged) -> None:
    record, found = judged.record, judged.found
    click.echo(f"{record.name}  {found.standing}, {record.holder.reservation or 'not reserved'}")
    since = f"{record.reserved_at:%Y-%m-%d %H:%M:%S} UTC"
    click.echo(f"  {record.node_key} of {record.request_id}, {record.holder.node_state}; reserved {since}")
    click.echo(f"  {found.why}{f' ({judged.problem})' if judged.problem else ''}")
    for filler in judged.fillers:
        click.echo(f"  filler {filler.version}: {filler.told()}")
    click.echo(f"  what to do: {judged.to_do}")


def _what(plan: FillPlan) -> str:
    if plan.goes_on is not None:
        return f"goes on with filler {plan.goes_on.version}: {plan.goes_on.told()}"
    assert plan.offer is not None  # noqa: S101 - a plan that goes on with nothing has one
    offer, record = plan.offer, plan.judged.record
    return (
        f"will sign: 0 from {record.sender} to itself under nonce {record.nonce} on {record.chain}, "
        f"{offer.fees.max_fee} wei per gas at most (tip {offer.fees.tip}), {offer.most_cost} at most"
    )
