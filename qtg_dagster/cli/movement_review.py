"""`qtg movement review`: what an approver looks at before saying yes, by the same function as the web UI's job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.movements import movement

if TYPE_CHECKING:
    from qtg_dagster.domain.review import Review
    from qtg_dagster.treasury.review_page import Section

_WIDEST = 80
#: Questions to the database that hang must leave room for those that do not.
_CONNECTIONS = 6


@movement.command()
@click.argument("request_id")
def review(request_id: str) -> None:
    """All that an approver should see of REQUEST_ID, warnings first. Changes nothing anywhere."""
    from qtg_dagster.domain.errors import QtgError
    from qtg_dagster.treasury.review_page import sections

    try:
        found = asyncio.run(_read(request_id))
    except QtgError as error:
        raise click.ClickException(str(error)) from error
    for section in sections(found):
        show(section)


async def _read(request_id: str) -> Review:
    from qtg_dagster.composition import open_platform
    from qtg_dagster.host.environment import machine_settings
    from qtg_dagster.treasury.review import review_movement

    async with open_platform(machine_settings(), pool_size=_CONNECTIONS) as platform:
        return await review_movement(platform.engine, platform.balance_fetchers, request_id)


def show(section: Section) -> None:
    """A title, and the rows in columns; only the last column may be wide."""
    click.echo(click.style(section.title.upper(), bold=True))
    rows = [row for row in (section.head, *section.rows) if any(row)] if len(section.head) > 1 else section.rows
    widths = [min(_WIDEST, max(len(row[column]) for row in rows)) for column in range(len(section.head) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo(f"  {'  '.join([*cells, row[-1]])}".rstrip())
    click.echo()
