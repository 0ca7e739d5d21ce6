"""Serving an executor over HTTP until told to stop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qtg_dagster.domain.contract import PROTOCOL_VERSION
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.executors.addresses import is_loopback
from qtg_dagster.executors.contract import Executor, SerializesByKey, submit_grace
from qtg_dagster.executors.remote.documents import Description
from qtg_dagster.executors.request_gate import WINDOW_SECONDS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_FINISH_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a service listens; port 0 = any free one, and a certificate with its key = TLS."""

    host: str = "127.0.0.1"
    port: int = 0
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def check(self) -> None:
        """Raises `ConfigurationError` where orders to move money would go over a network in the clear."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigurationError("give --tls-cert and --tls-key together")
        if self.tls_cert is None and not is_loopback(self.host):
            raise ConfigurationError(f"--host {self.host} is open to other machines; give --tls-cert and --tls-key")
        if self.tls_cert is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key, password="")
            except OSError as error:  # ssl.SSLError is one
                problem = (
                    f"--tls-cert {self.tls_cert} and --tls-key {self.tls_key} are no readable pair without password"
                )
                raise ConfigurationError(problem) from error


def describe(key: str, executor: Executor, *, signs: bool | None = None) -> Description:
    """What a local executor says of itself; its serialization key, if it has one, depends on the node.

    A submit may be on its way for as long as it is not stale, and only then does the provider begin to act.
    """
    return Description(
        protocol_version=PROTOCOL_VERSION,
        executor_key=key,
        submit_grace_seconds=WINDOW_SECONDS + submit_grace(executor),
        serializes_by_config=isinstance(executor, SerializesByKey),
        signs=signs,
    )


@asynccontextmanager
async def hosting(app: ASGIApp, where: Listening) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Listen inside the block: gives the URL and a task that ends on SIGTERM or SIGINT, when what was begun is done."""
    import uvicorn

    where.check()
    listener = _listener(where)
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_FINISH_SECONDS,
        ssl_certfile=where.tls_cert,
        ssl_keyfile=where.tls_key,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    scheme = "https" if where.tls_cert else "http"
    host = f"[{where.host}]" if ":" in where.host else where.host
    try:
        yield f"{scheme}://{host}:{listener.getsockname()[1]}", serving
    finally:
        server.should_exit = True
        await serving
        listener.close()


def _listener(where: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((where.host, where.port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on {where.host}:{where.port}: {error.strerror}") from error
    return listener
