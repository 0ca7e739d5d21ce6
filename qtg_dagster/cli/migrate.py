"""`qtg migrate`."""

from __future__ import annotations

import click


@click.command("migrate")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 when a migration is pending.")
def migrate(check: bool) -> None:
    """Bring the database to the newest schema (`qtg up` does it by itself)."""
    from qtg_dagster.host.database import database_urls
    from qtg_dagster.settings import load_settings
    from qtg_dagster.store.migrate import grant_roles, pending, upgrade

    url = database_urls(load_settings()).owner
    missing = pending(url)
    if missing and check:
        click.echo(f"pending: {', '.join(missing)}")
        raise SystemExit(1)
    if missing:
        upgrade(url)
    else:
        grant_roles(url)
    click.echo(f"applied: {', '.join(missing)}" if missing else "the database is at the newest migration")
