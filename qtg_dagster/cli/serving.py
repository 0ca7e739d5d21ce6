"""What the commands that host a service share: where it listens, who may ask, and that it serves until stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from qtg_dagster.executors.remote.hosting import Listening

_FILE = click.Path(path_type=Path, dir_okay=False)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def listening_options(port: int) -> Callable[[_Command], _Command]:
    """Options `host`, `port`, `secret_names`, `tls_cert` and `tls_key` for a command."""
    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="any but this machine's own needs TLS"),
        click.option("--port", default=port, show_default=True, help="0 = any free one"),
        click.option(
            "--secret-env",
            "secret_names",
            multiple=True,
            required=True,
            help="variable with the shared secret; twice while one replaces the other",
        ),
        click.option("--tls-cert", type=_FILE, help="PEM file of the certificate and its chain"),
        click.option("--tls-key", type=_FILE, help="PEM file of the certificate's key"),
    )

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


async def serve_until_stopped(app: Starlette, where: Listening, key: str) -> None:
    """Serve, say where, and return when the server has been stopped by a signal."""
    from qtg_dagster.executors.remote.hosting import hosting

    async with hosting(app, where) as (url, serving):
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # the server has handlers too, but only once it has started
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        click.echo(f"serving {key} on {url}")
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
