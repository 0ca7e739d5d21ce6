"""A receiver of callbacks: a real server with a book of what it was told, which misbehaves as it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Told:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


@dataclass
class Receiver:
    """Answers 204 unless `will` says otherwise; `always` is for all requests to come."""

    book: list[Told] = field(default_factory=list)
    connections: int = 0
    always: Behaviour | None = None
    _next: deque[Behaviour] = field(default_factory=deque)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None
    port: int = 0

    @classmethod
    async def start(cls, tls: ssl.SSLContext | None = None) -> Receiver:
        made = cls()
        made._server = await asyncio.start_server(made._serve, "127.0.0.1", 0, ssl=tls)
        made.port = made._server.sockets[0].getsockname()[1]
        return made

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def will(self, *behaviours: Behaviour) -> None:
        """How the next requests are dealt with, in their order."""
        self._next.extend(behaviours)

    def sequences(self) -> list[int]:
        """The numbers that events had, in the order of their arrival."""
        return [told.event["sequence"] for told in self.book]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._one(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.book.append(Told(first.split(" ")[1], headers, body))
        behaviour = self._next.popleft() if self._next else self.always
        if behaviour is None:
            await answers(204)(reader, writer)
        else:
            await behaviour(reader, writer)


def answers(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """An ordinary answer; header names are written with underscores."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Said"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if status != 204:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return answer


async def hangs(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Never answers; ends when the other side hangs up."""
    await reader.read()
    raise ConnectionError


async def cuts(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Has read everything, and hangs up."""
    writer.transport.abort()
    raise ConnectionError


def floods(many: int, written: list[int]) -> Behaviour:
    """A good answer with a body of so many bytes; `written` counts what was taken of it."""

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {many}\r\n\r\n".encode())
        chunk = b"x" * 65_536
        while sum(written) < many:
            writer.write(chunk)
            await writer.drain()
            written.append(len(chunk))

    return flood


def drips(status: int, *, headers: bool) -> Behaviour:
    """A byte now and then for ever: of the headers, or of the body behind them."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} Slowly\r\n".encode())
        writer.write(b"X-Slow: " if headers else b"Content-Length: 100000\r\n\r\n")
        hung_up = asyncio.ensure_future(reader.read())
        while not hung_up.done():
            writer.write(b"x")
            await writer.drain()
            await asyncio.wait([hung_up], timeout=0.05)
        raise ConnectionError

    return drip


def gate() -> tuple[Behaviour, asyncio.Event]:
    """An answer that comes when the event is set."""
    open_ = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await open_.wait()
        await answers(204)(reader, writer)

    return wait, open_
