"""The owner of all movements: books every callback that arrives, then answers, or has lost its answer on the way.

`python -m tests.crash.provider.receiver PORT_FILE BOOK`. One line a request, appended and flushed, never changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from qtg_dagster.callbacks.verify import CallbackRejected, verify, verify_v3
from tests.crash.provider.executor import CANARY

#: Whoever writes it down anywhere is found by the same look as with other secrets.
SECRET = f"{CANARY} of callbacks, long enough"
#: Each so many answers one is lost: the request was read, and the connection cut.
_LOSES = 5


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as it arrived; `verified` by both signatures."""

    seq: int
    at: float
    event_id: str
    request_id: str
    sequence: int
    digest: str
    verified: bool


class Owner:
    """Takes whatever comes."""

    def __init__(self, book: Path) -> None:
        self._file = book.open("a", encoding="utf-8")
        self._arrived = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._one(reader, writer):
                pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self._book(headers, body)
        if self._arrived % _LOSES == 0:
            writer.transport.abort()
            return False
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        return True

    def _book(self, headers: dict[str, str], body: bytes) -> None:
        self._arrived += 1
        event = json.loads(body)
        arrival = Arrival(
            seq=self._arrived,
            at=time.time(),
            event_id=headers.get("webhook-id", ""),
            request_id=event["request_id"],
            sequence=event["sequence"],
            digest=hashlib.sha256(body).hexdigest(),
            verified=_is_verified(headers, body),
        )
        self._file.write(json.dumps(asdict(arrival)) + "\n")
        self._file.flush()


def _is_verified(headers: dict[str, str], body: bytes) -> bool:
    try:
        told = verify(headers, body, [SECRET], tolerance_seconds=600)
        verify_v3(headers, body, [SECRET])
    except CallbackRejected:
        return False
    return told.event_id == told.event["event_id"]


def read_arrivals(book: Path) -> tuple[Arrival, ...]:
    """All arrivals so far; a last line that is being written is not one yet."""
    if not book.is_file():
        return ()
    return tuple(Arrival(**json.loads(line)) for line in book.read_text(encoding="utf-8").split("\n")[:-1])


async def main(port_file: Path, book: Path) -> None:
    server = await asyncio.start_server(Owner(book).serve, "127.0.0.1", 0)
    made = port_file.with_suffix(".new")
    made.write_text(str(server.sockets[0].getsockname()[1]))
    os.replace(made, port_file)  # noqa: PTH105 - at once, so that nobody reads half of it
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
