"""`qtg executor`: executors as services of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from qtg_dagster.cli.serving import listening_options, serve_until_stopped


@click.group()
def executor() -> None:
    """Host an executor as a service, for QTG on another machine."""


@executor.command()
@click.argument("key")
@listening_options(8700)
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
        from qtg_dagster.executors.remote.hosting import describe
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
            await serve_until_stopped(service.app(), where, key)

    asyncio.run(work())
