"""Stands between the kit and a service: it can keep an answer, lose a request, go away, and fall silent.

It listens in the clear on this machine and speaks TLS to the service where that is asked for. Every connection carries
one request, as those of `RemoteExecutor` do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Self
from urllib.parse import urlsplit

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance.bench import Knob

_SUBMIT = b"/submit"
_CHUNK = 65536


class LosingProxy:
    """Forwards to a base URL; use as an async context manager."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        """Raises `InvalidInput` for an address without a host."""
        parts = urlsplit(url)
        if parts.hostname is None:
            raise InvalidInput("url", f"{url!r} names no host", "Give http://host:port or https://host.")
        self._host, self._path = parts.hostname, parts.path.rstrip("/")
        self._named = parts.netloc.encode()
        self._to = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = tls
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._turned: set[Knob] = set()

    @property
    def url(self) -> str:
        """The service through the proxy."""
        return f"http://127.0.0.1:{self._port}{self._path}"

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def turn(self, knob: Knob) -> None:
        """Lose the next submit's request or reply, or be away or silent, until `calm`."""
        self._turned.add(knob)
        if knob is Knob.AWAY:
            await self._close()

    async def calm(self) -> None:
        """Forward everything again."""
        self._turned.clear()
        self._cut()
        if self._server is None:
            await self._open()

    async def _open(self) -> None:
        """On the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._cut()
            await self._server.wait_closed()
            self._server = None

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            # Whoever goes away half-way is cut off on the other side too.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._pass_on(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        is_submit = head.split(b" ", 2)[1].endswith(_SUBMIT)
        if Knob.SILENT in self._turned:
            await reader.read()  # until the other side gives up
            return
        if is_submit and self._take(Knob.LOSE_REQUEST):
            await _body(reader, head)
            writer.transport.abort()
            return
        loses = is_submit and self._take(Knob.LOSE_REPLY)
        answer = await self._ask(self._renamed(head) + await _body(reader, head))
        if loses:
            writer.transport.abort()
            return
        writer.write(answer)
        await writer.drain()

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._to, ssl=self._tls)
        try:
            writer.write(request)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()

    def _renamed(self, head: bytes) -> bytes:
        """With the service's own name for its host, by which it may be told from others behind one address."""
        lines = head.split(b"\r\n")
        named = [b"Host: " + self._named if line.lower().startswith(b"host:") else line for line in lines]
        return b"\r\n".join(named)

    def _take(self, knob: Knob) -> bool:
        if knob not in self._turned:
            return False
        self._turned.remove(knob)
        return True


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return await reader.readexactly(int(value))
    return b""
