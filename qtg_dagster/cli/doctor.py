"""`qtg doctor`."""

from __future__ import annotations

import click


@click.command("doctor")
def doctor() -> None:
    """Check that everything QTG needs is there, a line each; exit 1 when something is not."""
    from qtg_dagster.host.doctor import examine

    healthy = True
    for finding in examine():
        healthy = healthy and finding.ok
        click.echo(finding.line())
    raise SystemExit(0 if healthy else 1)
