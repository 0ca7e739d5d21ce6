"""`qtg breaker`: what may not start at the moment, by the same functions as the web UI's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import run

if TYPE_CHECKING:
    from qtg_dagster.engine.parts import Engine

_by = click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")


@click.group()
def breaker() -> None:
    """Hold back what would start, on a lane, a venue, a chain or everything; what is in flight is finished."""


@breaker.command("open")
@click.argument("scope")
@_by
@click.option("--reason", required=True, help="what is wrong")
def open_(scope: str, actor: str, reason: str) -> None:
    """Let nothing under SCOPE start: lane:cex, venue:NAME, chain:eip155:1 or network:CLASS."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.breakers import open_breaker

        opened = await open_breaker(engine, scope, actor=actor, reason=reason)
        click.echo(f"{opened.scope} {opened.told()}")

    run(work)


@breaker.command()
@click.argument("scope")
@_by
@click.option("--per-minute", type=click.IntRange(min=1), required=True, help="how many nodes may start in any minute")
@click.option("--reason", default="", help="why it can go on now")
def release(scope: str, actor: str, per_minute: int, reason: str) -> None:
    """Let what SCOPE holds back through slowly, until it is closed or opened again."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.breakers import release_breaker

        released = await release_breaker(engine, scope, per_minute=per_minute, actor=actor, reason=reason)
        click.echo(f"{released.scope} {released.told()}")

    run(work)


@breaker.command()
@click.argument("scope")
@_by
@click.option("--reason", default="", help="what was found and done")
def close(scope: str, actor: str, reason: str) -> None:
    """Let everything under SCOPE start again."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.engine.breakers import close_breaker

        closed = await close_breaker(engine, scope, actor=actor, reason=reason)
        click.echo(f"{closed.scope} is closed; it was {closed.told()}")

    run(work)


@breaker.command("list")
def list_() -> None:
    """Say which breakers are open, since when, by whom and why, and how many READY nodes each holds back."""

    async def work(engine: Engine) -> None:
        from qtg_dagster.store.breakers import standing_breakers

        async with engine.database.transaction() as transaction:
            standing = await standing_breakers(transaction, engine.settings.network_class)
        for one in standing:
            click.echo(f"{one.scope} {one.told()}")
        if not standing:
            click.echo("no breaker is open")

    run(work)
