"""`qtg workers`."""

from __future__ import annotations

import asyncio

import click


@click.command("workers")
def workers() -> None:
    """Show how every worker does, a line each; exit 1 when one is late, failing, dead or halted."""
    from qtg_dagster.host.environment import machine_settings
    from qtg_dagster.store.database import Database
    from qtg_dagster.upkeep.workers import Survey, survey_workers

    async def ask() -> Survey:
        settings = machine_settings()
        database = Database(settings.database_url, pool_size=2)
        try:
            return await survey_workers(database, settings, asked_by="qtg workers")
        finally:
            await database.close()

    survey = asyncio.run(ask())
    click.echo(f"{'worker':<28} {'group':<8} {'every':>7}  how it does")
    for one in survey.workers:
        group = "core" if one.spec.core else "sidecar"
        click.echo(f"{one.spec.name:<28} {group:<8} {one.spec.interval_seconds:>5.0f} s  {one.told()}")
    if not survey.group.runs:
        click.echo(survey.group.explain(), err=True)
    raise SystemExit(1 if survey.alarms() else 0)
