"""`qtg limit`: how much of an asset may leave in a day, by the same functions as the web UI's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from qtg_dagster.domain.velocity import VelocityLimit
    from qtg_dagster.engine.parts import Engine

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
_reason = click.option("--reason", required=True, help="why; goes into the audit trail")


@click.group()
def limit() -> None:
    """Limit how much of an asset may leave our accounts in one day (UTC), over all movements."""


@limit.command("set")
@click.argument("asset")
@click.argument("daily")
@_by
@_reason
def set_(asset: str, daily: str, actor: str, reason: str) -> None:
    """Let at most DAILY of ASSET leave a day; what has left today already counts."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.limits import set_velocity_limit

        click.echo(_line(await set_velocity_limit(engine, asset, daily, actor=actor, reason=reason)))

    run(work)


@limit.command()
@click.argument("asset")
@_by
@_reason
def clear(asset: str, actor: str, reason: str) -> None:
    """Take the limit of ASSET away."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.treasury.limits import clear_velocity_limit

        await clear_velocity_limit(engine, asset, actor=actor, reason=reason)
        click.echo(f"{asset} has no limit any more")

    run(work)


@limit.command("list")
def list_() -> None:
    """The limits that stand, and what is left of each today."""

    async def work(engine: Engine) -> None:
        limits = await engine.store.velocity_limits(engine.settings.network_class)
        for each in limits:
            click.echo(_line(each))
        if not limits:
            click.echo("no limit stands")

    run(work)


def _line(limit: VelocityLimit) -> str:
    left, daily = limit.text(limit.left_units), limit.text(limit.daily_units)
    return f"{limit.asset}: {left} left of {daily} today (UTC); set by {limit.set_by}: {limit.reason}"
