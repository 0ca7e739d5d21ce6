"""`qtg signer enrol` and `qtg signer list`: who each signer should be, and who it says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run
from qtg_dagster.cli.signer import signer

if TYPE_CHECKING:
    from qtg_dagster.engine.parts import Engine


@signer.command()
@click.argument("signer_key")
@click.argument("address")
@click.option("--by", "actor", required=True, help="who says so; goes into the audit trail")
@click.option("--reason", required=True, help="where the address is known from")
def enrol(signer_key: str, address: str, actor: str, reason: str) -> None:
    """Say that SIGNER_KEY must sign with ADDRESS."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.upkeep.signer_identity import enrol_signer

        enrolled = await enrol_signer(engine, signer_key, address, actor=actor, reason=reason)
        click.echo(f"{enrolled.signer_key} {enrolled.told()}")

    run(work)


@signer.command("list")
def list_() -> None:
    """Every signer, and whether it is who it was enrolled as."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.signer_identity import read_roster

        async with engine.database.transaction() as transaction:
            roster = await read_roster(transaction, engine.settings.network_class)
        for each in roster:
            click.echo(f"{each.signer_key} {each.told()}{'' if each.registered else '; no longer in the inventory'}")
        if not roster:
            click.echo("no signer is known yet")

    run(work)
