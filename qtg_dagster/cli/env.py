"""`qtg env`."""

from __future__ import annotations

import shlex

import click


@click.command("env")
def env() -> None:
    """Print the variables of a running QTG for a plain shell: eval "$(./qtg env)"."""
    from qtg_dagster.host.database import database_urls
    from qtg_dagster.host.environment import shared_environment
    from qtg_dagster.host.paths import state_home
    from qtg_dagster.settings import load_settings

    for name, text in shared_environment(state_home(), database_urls(load_settings())).items():
        click.echo(f"export {name}={shlex.quote(text)}")
