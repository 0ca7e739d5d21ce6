"""`qtg executor`: executors as services of their own."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def executor() -> None:
    """Host an executor as a service, for QTG on another machine."""


@executor.command()
@click.argument("key")
@click.option("--host", default="127.0.0.1", show_default=True, help="any but this machine's own needs TLS")
@click.option("--port", default=8700, show_default=True, help="0 = any free one")
@click.option(
    "--secret-env",
    "secret_names",
    multiple=True,
    required=True,
    help="variable with the shared secret; twice while one replaces the other",
)
@click.option("--tls-cert", type=_FILE, help="PEM file of the certificate and its chain")
@click.option("--tls-key", type=_FILE, help="PEM file of the certificate's key")
@click.option("--signs/--signs-not", default=None, help="whether its actions want a signature; leave out if some do")
def serve(
    key: str,
    host: str,
    port: int,
    secret_names: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    signs: bool | None,
) -> None:
    """Serve the executor registered as KEY over HTTP JSON until stopped."""
    from qtg_dagster.executors.remote.hosting import Listening
    from qtg_dagster.secret import SecretSource

    where = Listening(host, port, tls_cert, tls_key)
    where.check()
    secrets = [SecretSource(env=name).read("--secret-env") for name in secret_names]

    async def work() -> None:
        from qtg_dagster.composition import open_platform
        from qtg_dagster.domain.clock import SystemClock
        from qtg_dagster.executors.remote.hosting import describe, hosting
        from qtg_dagster.executors.remote.service import ExecutorService
        from qtg_dagster.executors.request_gate import RequestGate
        from qtg_dagster.host.environment import machine_settings

        gate = RequestGate(secrets, SystemClock())
        async with open_platform(machine_settings()) as platform:
            hosted = platform.executors.resolve(key)
            service = ExecutorService(
                hosted,
                describe(key, hosted, signs=signs),
                gate,
                session=lambda: platform.engine.session_for(hosted),
            )
            async with hosting(service.app(), where) as (url, serving):
                for number in (signal.SIGTERM, signal.SIGINT):  # the server stops by them; the rest is closed then
                    asyncio.get_running_loop().add_signal_handler(number, lambda: None)
                click.echo(f"serving {key} on {url}")
                await serving

    asyncio.run(work())
