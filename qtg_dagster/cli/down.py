"""`qtg down`."""

from __future__ import annotations

import click


@click.command("down")
def down() -> None:
    """Stop what `qtg up` started, also when it was killed."""
    from qtg_dagster.host.paths import state_home
    from qtg_dagster.host.postgres import EmbeddedPostgres
    from qtg_dagster.host.process_records import stop_recorded, stop_supervisor

    home = state_home()
    if not home.is_dir():
        click.echo(f"nothing runs: {home} does not exist")
        return
    if stop_supervisor(home):
        click.echo("stopped qtg up and its processes")
    left = stop_recorded(home)
    if left:
        click.echo(f"stopped {', '.join(left)}")
    server = EmbeddedPostgres(home)
    if server.is_alive():
        server.stop()
        click.echo("stopped postgresql")
    click.echo("nothing runs any more")
