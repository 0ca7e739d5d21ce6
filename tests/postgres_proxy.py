"""A small TCP proxy before PostgreSQL: it can refuse, cut, keep answers, and pretend to be a pooler."""

from __future__ import annotations

import asyncio
import struct

from sqlalchemy.engine import make_url

_BACKEND_KEY_DATA = b"K" + struct.pack("!I", 12)


class PostgresProxy:
    """Forwards to the server's Unix socket; use as an async context manager."""

    def __init__(self, database_url: str, *, pretend_pooler: bool = False) -> None:
        self._url = make_url(database_url)
        self._socket = f"{self._url.query['host']}/.s.PGSQL.{self._url.port or self._url.query.get('port', 5432)}"
        self._pretend_pooler = pretend_pooler
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._refusals = 0
        self._silent: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> PostgresProxy:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """The same database through the proxy."""
        through = self._url.set(host="127.0.0.1", port=self._port).difference_update_query(["host", "port"])
        return through.render_as_string(hide_password=False)

    async def open(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut every connection and listen no more."""
        if self._server is not None:
            self._server.close()
        self._cut()

    async def go_away(self, refusals: int) -> None:
        """Cut every connection, and refuse the next ones before all is well again."""
        self._refusals = refusals
        self._cut()

    def fall_silent(self) -> None:
        """Let no more answers through to those who are connected now, as a network does that is cut without a word."""
        self._silent |= self._writers

    @property
    def refusals_left(self) -> int:
        return self._refusals

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusals:
            self._refusals -= 1
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_unix_connection(self._socket)
        mine = {writer, up_writer}
        self._writers |= mine
        try:
            await asyncio.gather(self._pump(reader, up_writer, False), self._pump(up_reader, writer, True))
        finally:
            self._writers -= mine

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_server: bool) -> None:
        try:
            while data := await reader.read(65536):
                if from_server and self._pretend_pooler:
                    data = _other_pid(data)
                if from_server and writer in self._silent:
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one side was cut; the other is closed below
        finally:
            writer.close()


def _other_pid(data: bytes) -> bytes:
    """A pooler names a backend of its own making."""
    place = data.find(_BACKEND_KEY_DATA)
    return data if place < 0 else data[: place + 5] + struct.pack("!I", 1) + data[place + 9 :]
