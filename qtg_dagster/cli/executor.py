"""`qtg executor`: executors as services of their own."""

from __future__ import annotations

import click


@click.group()
def executor() -> None:
    """Host an executor as a service, for QTG on another machine."""
