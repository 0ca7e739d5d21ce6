"""A bank without mercy: it takes a client id, never looks whether it has seen it, and answers as it is told to.

It refuses one thing alone, an order whose time is over: without that, no look could ever prove an absence.

`python -m tests.crash.provider.server SOCKET BOOK`. One JSON line a connection; the answer is one JSON line, or none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import defaultdict, deque
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.crash.provider.book import Book

#: So long a move may not be seen yet.
HIDDEN_SECONDS = 0.2
SLOW_SECONDS = 0.15


class Mode(StrEnum):
    """How one move goes."""

    OK = "ok"
    SLOW = "slow"
    ERROR_BEFORE = "error_before"
    EXECUTE_THEN_TIMEOUT = "execute_then_timeout"
    EXECUTE_THEN_500 = "execute_then_500"
    DUPLICATE_RESPONSE = "duplicate_response"
    STALE_READ = "stale_read"
    LATE = "late"  # no answer, and the move in the last moment that the order is valid
    NEVER = "never"


class Bank:
    """One book, a queue of modes per account."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._modes: defaultdict[str, deque[Mode]] = defaultdict(deque)
        self._late: dict[str, tuple[float, dict[str, Any]]] = {}
        self._hidden_until: dict[str, float] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question."""
        with contextlib.suppress(OSError, ValueError):
            line = await reader.readline()
            if line.endswith(b"\n"):  # half a request is none
                await self._answer(json.loads(line), writer)
        writer.close()

    async def _answer(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self._execute_late()
        match asked["op"]:
            case "modes":
                self._modes[asked["account"]] = deque(Mode(mode) for mode in asked["modes"])
                await _say(writer, {"ok": True})
            case "time":
                await _say(writer, {"now": repr(time.time())})
            case "find":
                await _say(writer, {"moves": self._seen(asked["client_id"])})
            case "move":
                await self._move(asked, writer)

    def _seen(self, client_id: str) -> list[dict[str, Any]]:
        if time.monotonic() < self._hidden_until.get(client_id, 0.0):
            return []
        return [
            {"reference": f"move-{move.seq}", "amount": move.amount, "target": move.target}
            for move in self._book.find(client_id)
        ]

    async def _move(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if time.time() > float(asked["valid_until"]):
            await _say(writer, {"error": "too late"})
            return
        waiting = self._modes[asked["account"]]
        mode = waiting.popleft() if waiting else Mode.OK
        if mode is Mode.ERROR_BEFORE:
            await _say(writer, {"error": "busy"})
            return
        if mode is Mode.NEVER:
            return
        if mode is Mode.LATE:
            wait = float(asked["valid_until"]) - time.time()
            self._late[asked["client_id"]] = (time.monotonic() + wait, asked)
            asyncio.get_running_loop().call_later(wait, self._execute_late)
            return
        reply = self._execute(asked)
        match mode:
            case Mode.EXECUTE_THEN_TIMEOUT:
                return
            case Mode.EXECUTE_THEN_500:
                reply = {"error": "internal"}
            case Mode.SLOW:
                await asyncio.sleep(SLOW_SECONDS)
            case Mode.STALE_READ:
                self._hidden_until[asked["client_id"]] = time.monotonic() + HIDDEN_SECONDS
            case Mode.DUPLICATE_RESPONSE:
                await _say(writer, reply)
            case _:
                pass
        await _say(writer, reply)

    def _execute(self, asked: dict[str, Any]) -> dict[str, Any]:
        booked = self._book.move(asked["client_id"], asked["account"], asked["target"], asked["amount"])
        return {"status": "accepted", "reference": f"move-{booked.seq}"}

    def _execute_late(self) -> None:
        for client_id, (due, asked) in list(self._late.items()):
            if due <= time.monotonic():
                del self._late[client_id]
                self._execute(asked)


async def _say(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


async def main(socket: Path, book: Path) -> None:
    """Serve until killed."""
    bank = Bank(Book(book))
    socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(bank.serve, socket, backlog=512)
    async with server:
        while os.getppid() != 1:  # nobody is left to ask
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
