"""Hearing that there is work: NOTIFY as a hint, the poll as the truth."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

import psycopg
import structlog

from qtg_dagster.store.database import Database

log = structlog.get_logger("qtg.store")

CHANNEL = "qtg_wake"
_RECONNECT_SECONDS = 0.5


class Wakeups:
    """Sets an event whenever a commit anywhere has made work of one kind; use as an async context manager.

    A lost connection is not lost work: the drain polls all the same, and is woken once after each reconnection.
    """

    def __init__(self, database: Database, kind: str) -> None:
        self._database = database
        self._kind = kind
        self._task: asyncio.Task[None] | None = None
        self.event = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen(), name=f"wakeups {self._kind}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        while True:
            try:
                connection = await self._database.direct_connection()
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self.event.set()
                    async for notice in connection.notifies():
                        if notice.payload == self._kind:
                            self.event.set()
            except (psycopg.Error, OSError) as error:
                log.warning("wake-ups interrupted, polling goes on", kind=self._kind, error=str(error))
            await asyncio.sleep(_RECONNECT_SECONDS)
