"""`qtg ledger`: a movement's double-entry lines, and the proof that all of them add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from qtg_dagster.engine.parts import Engine


@click.group()
def ledger() -> None:
    """Show and verify the double-entry lines of movements."""


@ledger.command()
@click.argument("request_id")
def show(request_id: str) -> None:
    """The lines of one movement, oldest first."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.ledger import read_lines
        from qtg_dagster.store.views import read_movement

        async with engine.database.transaction() as transaction:
            lines = await read_lines(transaction, engine.settings.network_class, request_id)
            if not lines:  # they outlive the movement's own rows
                await read_movement(transaction, engine.settings.network_class, request_id)
        for line in lines:
            what = f"{line.node_key} attempt {line.attempt_no} {line.entry_kind}"
            click.echo(
                f"{line.posted_at:%Y-%m-%d %H:%M:%S} {what:40} {line.amount!s:>24}  "
                f"{line.from_account} -> {line.to_account}"
            )
        if not lines:
            click.echo("no lines: nothing has left yet, or its nodes name no asset, amount and source", err=True)

    run(work)


@ledger.command()
def verify() -> None:
    """Add up every asset and compare the lines with the nodes; exit 1 when something contradicts."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.ledger import verify_ledger

        async with engine.database.transaction() as transaction:
            report = await verify_ledger(transaction, engine.settings.network_class)
        for total in report.totals:
            click.echo(f"{total.amount.asset.symbol:8} {total.account_class:8} {total.amount.to_text():>32}")
        for asset in report.unbalanced:
            click.echo(f"WRONG  {asset.symbol} does not add up to nothing")
        for finding in report.findings:
            mark = "WRONG" if finding.wrong else "note "
            click.echo(f"{mark}  {finding.request_id} {finding.node_key}: {finding.check}: {finding.detail}")
        if not report.right:
            raise SystemExit(1)
        click.echo("the ledger is right: every asset adds up to nothing, no node contradicts its lines")

    run(work)
