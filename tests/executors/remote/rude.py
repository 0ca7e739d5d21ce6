"""An HTTP server by hand, which can answer in ways that no framework would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.executors.message_auth import NONCE_HEADER, answer_headers
from qtg_dagster.secret import Secret
from tests.executors.remote.orders import SECRET


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def nonce(self) -> str:
        return self.headers[NONCE_HEADER.lower()]


@dataclass
class Line:
    """The way back to the caller."""

    asked: Asked
    writer: asyncio.StreamWriter

    async def write(self, status: int, body: bytes, headers: dict[str, str], *, length: int | None = None) -> None:
        """Send an answer; `length` is the Content-Length that is claimed."""
        head = {"Content-Length": str(len(body) if length is None else length), "Connection": "close", **headers}
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode() + body)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def sign(
        self, status: int, document: Any, *, secret: Secret = SECRET, nonce: str | None = None, **headers: str
    ) -> None:
        """Send a document (or bytes) with a signature."""
        body = document if isinstance(document, bytes) else canonical_json(document).encode()
        signed = answer_headers(secret, nonce=nonce or self.asked.nonce, status=status, body=body)
        await self.write(status, body, {**signed, **headers})


@dataclass
class RudeServer:
    """What it was asked, and where it listens."""

    url: str
    asked: list[Asked] = field(default_factory=list)


Behaviour = Callable[[Line], Awaitable[None]]


@contextlib.asynccontextmanager
async def rude_server(behaviour: Behaviour) -> AsyncIterator[RudeServer]:
    """Serve inside the block; each connection carries one request, and is closed after what `behaviour` did."""
    seen: list[Asked] = []
    open_calls: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_calls.add(task)
        try:
            asked = await _read(reader)
            seen.append(asked)
            await behaviour(Line(asked, writer))
        finally:
            open_calls.discard(task)
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield RudeServer(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", seen)
    finally:
        listener.close()
        for task in list(open_calls):
            task.cancel()
        await asyncio.gather(*open_calls, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
    return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))
