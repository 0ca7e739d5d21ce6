"""A TCP proxy in front of PostgreSQL that reads the protocol, so that it can strike at one commit exactly.

It follows prepared statements by name, and sees a commit in the server's `ReadyForQuery` that says "idle" after the
statement it waits for: this is the same for an explicit COMMIT and for a statement that commits by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy.engine import make_url

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_HEADER = 5


class Strike(StrEnum):
    """What happens when the statement that was waited for comes by."""

    ACK_CUT = "ack_cut"  # committed; the connection is reset instead of an answer
    ACK_HELD = "ack_held"  # committed; no answer comes, and the connection stays up
    REQUEST_CUT = "request_cut"  # the connection is reset in the middle of the COMMIT or of the statement


@dataclass(frozen=True, slots=True)
class Order:
    """Strike at the nth statement whose text holds the words."""

    words: bytes
    strike: Strike
    after_bytes: int = 3


@dataclass
class Toxics:
    """What ails every connection: a delay for each chunk, and a reset now and then."""

    latency_seconds: float = 0.0
    reset_every_bytes: int = 0
    random: random.Random = field(default_factory=random.Random)


class CuttingProxy:
    """Forwards to the server's Unix socket; use as an async context manager."""

    def __init__(self, database_url: str) -> None:
        self._url = make_url(database_url)
        self._socket = f"{self._url.query['host']}/.s.PGSQL.{self._url.port or self._url.query.get('port', 5432)}"
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._held: list[asyncio.StreamWriter] = []
        self._order: Order | None = None
        self._on_strike: Callable[[], None] = lambda: None
        self.struck = asyncio.Event()
        self.toxics = Toxics()

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()

    @property
    def url(self) -> str:
        """The same database through the proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        through = self._url.set(host="127.0.0.1", port=port).difference_update_query(["host", "port"])
        through = through.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        return through.render_as_string(hide_password=False)

    def arm(self, order: Order, on_strike: Callable[[], None]) -> None:
        """Strike once; `on_strike` is called at that moment, before anybody notices."""
        self.struck.clear()
        self._order, self._on_strike = order, on_strike

    def release(self) -> None:
        """Reset the connections that were left without an answer."""
        while self._held:
            self._held.pop().transport.abort()

    def cut_all(self) -> None:
        """Reset every connection there is."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._socket)
        except OSError:  # the server is away
            writer.transport.abort()
            return
        mine = {writer, up_writer}
        self._writers |= mine
        link = _Link(self, writer, up_writer)
        try:
            await asyncio.gather(link.from_client(reader), link.from_server(up_reader))
        finally:
            self._writers -= mine

    def _take(self, strike: Strike) -> bool:
        """Whether the order is for this very moment."""
        order = self._order
        if order is None or order.strike is not strike:
            return False
        self._order = None
        self._on_strike()
        self.struck.set()
        return True


class _Link:
    """One client's connection and the state of its conversation."""

    def __init__(self, proxy: CuttingProxy, down: asyncio.StreamWriter, up: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._down, self._up = down, up
        self._statements: dict[bytes, bytes] = {}
        self._started = False
        self._hot = False
        self._mute = False
        self._passed = 0

    async def from_client(self, reader: asyncio.StreamReader) -> None:
        """Forward whole messages, reading which statements they run."""
        rest = b""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._suffer(len(data))
                rest += data
                if not self._started:
                    rest = self._startup(rest)
                for message in self._whole(rest) if self._started else ():
                    rest = rest[len(message) :]
                    if not self._pass_on(message):
                        return
                await self._up.drain()
        self._up.close()

    async def from_server(self, reader: asyncio.StreamReader) -> None:
        """Forward, but keep the answer of the statement that is waited for until it says whether it committed."""
        rest, kept = b"", b""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._mute:
                    continue
                if not self._hot and not rest:
                    self._down.write(data)
                    await self._down.drain()
                    continue
                rest += data
                for message in self._whole(rest):
                    rest = rest[len(message) :]
                    kept += message
                    if message[:1] == b"Z" and self._ended(message[5:6] == b"I"):
                        return
                    if message[:1] == b"Z":
                        self._down.write(kept)
                        kept = b""
                if not self._hot:
                    self._down.write(kept)
                    kept = b""
        self._down.close()

    def _ended(self, idle: bool) -> bool:
        """After the statement's answer; True when the connection is done for."""
        if not (self._hot and idle):
            return False
        self._hot = False
        if self._proxy._take(Strike.ACK_CUT):
            self._down.transport.abort()
            self._up.close()
            return True
        if self._proxy._take(Strike.ACK_HELD):
            self._mute = True
            self._proxy._held.append(self._down)
            return True
        return False

    def _startup(self, rest: bytes) -> bytes:
        while len(rest) >= 8:
            length, code = struct.unpack("!II", rest[:8])
            if len(rest) < length:
                return rest
            packet, rest = rest[:length], rest[length:]
            if code in (_SSL_REQUEST, _GSS_REQUEST):
                self._down.write(b"N")
                continue
            self._up.write(packet)
            self._started = True
            return rest
        return rest

    @staticmethod
    def _whole(data: bytes) -> Iterator[bytes]:
        place = 0
        while len(data) - place >= _HEADER:
            end = place + 1 + int(struct.unpack("!I", data[place + 1 : place + 5])[0])
            if len(data) < end:
                return
            yield data[place:end]
            place = end

    def _pass_on(self, message: bytes) -> bool:
        """Forward one message of the client; False when the order was to cut it."""
        kind, body = message[:1], message[_HEADER:]
        text = b""
        if kind == b"P":
            name, text = body.split(b"\0", 2)[:2]
            self._statements[name] = text
        elif kind == b"B":
            text = self._statements.get(body.split(b"\0", 2)[1], b"")
        elif kind == b"Q":
            text = body
        order = self._proxy._order
        if order is not None and order.words in text and kind in (b"B", b"Q"):
            self._hot = True
        if (
            self._hot
            and order is not None
            and order.strike is Strike.REQUEST_CUT
            and (text.strip(b"\0").upper() == b"COMMIT" or kind == b"S")
            and self._proxy._take(Strike.REQUEST_CUT)
        ):
            self._up.write(message[: order.after_bytes])
            self._up.close()
            self._down.transport.abort()
            return False
        self._up.write(message)
        return True

    async def _suffer(self, size: int) -> None:
        toxics = self._proxy.toxics
        if toxics.latency_seconds:
            await asyncio.sleep(toxics.latency_seconds * toxics.random.random())
        self._passed += size
        if toxics.reset_every_bytes and toxics.random.random() < size / toxics.reset_every_bytes:
            self._down.transport.abort()
            self._up.close()
            raise ConnectionResetError
