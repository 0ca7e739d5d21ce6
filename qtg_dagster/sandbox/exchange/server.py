"""The HTTP surface and the process: venues under their prefixes, the control API, the background work."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control_api import ControlApi
from qtg_dagster.sandbox.exchange.exchange import Exchange
from qtg_dagster.sandbox.exchange.transport import RudeProtocol

_METHODS = ["GET", "POST", "PUT", "DELETE"]


def build_app(exchange: Exchange) -> Starlette:
    """The ASGI application over a running exchange."""
    venues = Route("/{venue}/{endpoint:path}", exchange.serve_venue, methods=_METHODS)
    return Starlette(routes=[*ControlApi(exchange).routes(), venues])


async def serve(config: ExchangeConfig, *, host: str, port: int) -> None:
    """Serve until signalled; prints the address once it listens. Port 0 picks a free one."""
    listener = _listener(host, port)
    exchange = Exchange(config)
    server = uvicorn.Server(
        uvicorn.Config(
            build_app(exchange),
            http=RudeProtocol,
            loop="asyncio",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    working = asyncio.create_task(exchange.work())
    address = f"http://{host}:{listener.getsockname()[1]}"
    print(f"exchange stand-in with {', '.join(config.venues)} on {address}", flush=True)  # noqa: T201 - its interface
    await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    if working.done():
        working.result()
    working.cancel()
    exchange.ledger.close()


def _listener(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"--port: cannot listen on {host}:{port}: {error.strerror}; give another") from error
    listener.listen(128)
    return listener
