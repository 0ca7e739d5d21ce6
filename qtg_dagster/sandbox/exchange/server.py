"""The HTTP surface and the process: venues under their prefixes, the control API, the background work."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Serving:
    """A stand-in that listens; `ended` is done when it was signalled or its background work failed."""

    address: str
    exchange: Exchange
    app: Starlette
    ended: Awaitable[object]


class _Server(uvicorn.Server):
    """Ends when it is told to and its connections are gone; uvicorn's own looks for either every tenth of a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:  # which signals set, too
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        state = self.server_state
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110 - nobody is told
                    await asyncio.sleep(0.005)
        for task in list(state.tasks):
            task.cancel()


@asynccontextmanager
async def serving(config: ExchangeConfig, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Serving]:
    """Listen and work inside the block; port 0 picks a free one. Raises what the background work raised."""
    listener = _listener(host, port)
    try:
        exchange = Exchange(config)
    except BaseException:
        listener.close()
        raise
    app = build_app(exchange)
    server = _Server(
        uvicorn.Config(
            app,
            http=RudeProtocol,
            loop="asyncio",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,  # each venue has a clock of its own
            timeout_graceful_shutdown=2,
        )
    )
    answering = asyncio.create_task(server.serve(sockets=[listener]))
    working = asyncio.create_task(exchange.work())
    ended = asyncio.ensure_future(asyncio.wait({answering, working}, return_when=asyncio.FIRST_COMPLETED))
    try:
        yield Serving(f"http://{host}:{listener.getsockname()[1]}", exchange, app, ended)
    finally:
        server.stop()
        working.cancel()
        results = await asyncio.gather(answering, working, return_exceptions=True)
        await ended
        await exchange.close()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result


async def serve(config: ExchangeConfig, *, host: str, port: int) -> None:
    """Serve until signalled; prints the address in one line once it listens."""
    async with serving(config, host=host, port=port) as running:
        print(f"exchange stand-in: {', '.join(config.venues)} on {running.address}", flush=True)  # noqa: T201
        await running.ended


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only for sockets that name their protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"--port: cannot listen on {host}:{port}: {error.strerror}; give another") from error
    listener.listen(128)
    return listener
