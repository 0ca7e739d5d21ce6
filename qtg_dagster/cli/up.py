"""`qtg up`."""

from __future__ import annotations

import click


@click.command("up")
@click.option("--sandbox/--no-sandbox", default=True, show_default=True, help="Run the local chain and exchange too.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the web UI; 3000 or a free one when not given.")
@click.option("--paused", is_flag=True, help="Start no node until `qtg breaker close` or `release` (MG_START_PAUSED).")
def up(sandbox: bool, port: int | None, paused: bool) -> None:
    """Start everything on this machine and keep it running until Ctrl-C."""
    import os

    from qtg_dagster.host.paths import state_home
    from qtg_dagster.host.stack import Stack
    from qtg_dagster.sandbox.processes import start_sandbox
    from qtg_dagster.settings import load_settings

    if paused:
        os.environ["MG_START_PAUSED"] = "true"  # for the process that writes the first rows
    extensions = (start_sandbox,) if sandbox else ()
    Stack(state_home(), load_settings(), click.echo, port, extensions).run()
