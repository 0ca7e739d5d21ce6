"""`qtg demo`."""

from __future__ import annotations

import sys

import click


@click.command("demo")
@click.option("--once", is_flag=True, help="Stop when the movements have ended; exit 0 only when all went as promised.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the web UI; 3000 or a free one when not given.")
def demo(once: bool, port: int | None) -> None:
    """Start everything, move funds between two exchanges and a chain, and show that every balance agrees."""
    from rich.console import Console

    from qtg_dagster.host.paths import state_home
    from qtg_dagster.host.stack import Stack
    from qtg_dagster.sandbox.demo.guest import DemoGuest
    from qtg_dagster.sandbox.processes import start_sandbox
    from qtg_dagster.settings import load_settings

    home = state_home()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    guest = DemoGuest(home, console, leave=once)
    Stack(home, load_settings(), click.echo, port, (start_sandbox,)).run(guest)
    if once and not guest.passed:
        sys.exit(1)
