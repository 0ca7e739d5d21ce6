"""`qtg core`: how the core workers stand together, and letting them go on after a halt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from qtg_dagster.settings import Settings
    from qtg_dagster.store.database import Database

T = TypeVar("T")


@click.group()
def core() -> None:
    """See how the core workers stand, and resume them after a halt."""


@core.command()
def status() -> None:
    """Say how the core group stands, and its last entries; exit 1 while it is halted."""

    async def work(database: Database, settings: Settings) -> bool:
        from qtg_dagster.domain.core_group import CoreStanding
        from qtg_dagster.store.core_group import words_since
        from qtg_dagster.upkeep.core_group import look_after_core

        group = await look_after_core(database, settings, noticed_by="qtg core status")
        click.echo(f"{group.standing}: {group.explain()}")
        for word in await words_since(database, settings.network_class, 0, most=10):
            by = f" by {word.actor}" if word.actor else ""
            click.echo(f"{word.occurred_at:%Y-%m-%d %H:%M:%S}  {word.event:<8}{by} {word.reason}")
        return group.standing is CoreStanding.HALTED

    raise SystemExit(1 if _ask(work) else 0)


@core.command()
@click.option("--by", "actor", required=True, help="who decides; goes into the audit trail")
@click.option("--reason", required=True, help="what was found and done")
def resume(actor: str, reason: str) -> None:
    """Let the core workers start again; deaths so far no longer count."""

    async def work(database: Database, settings: Settings) -> None:
        from qtg_dagster.store.core_group import resume_core_group

        await resume_core_group(database, settings.network_class, actor=actor, reason=reason)
        click.echo("the core group runs")

    _ask(work)


def _ask(work: Callable[[Database, Settings], Awaitable[T]]) -> T:
    from qtg_dagster.host.environment import machine_settings
    from qtg_dagster.store.database import Database

    async def ask() -> T:
        settings = machine_settings()
        database = Database(settings.database_url, pool_size=2)
        try:
            return await work(database, settings)
        finally:
            await database.close()

    return asyncio.run(ask())
