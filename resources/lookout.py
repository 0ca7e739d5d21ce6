"""Reading the database from plain threads (sensors, schedules, checks) with the store's own async reads.

One event loop thread and two connections a process; a statement that takes long is ended by the server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TypeVar

from qtg_dagster.store.database import Database
from qtg_dagster.store.urls import with_options

T = TypeVar("T")

_STATEMENT_SECONDS = 5
#: Well inside the minute that a sensor's tick may take.
_READ_SECONDS = 20.0


class Lookout:
    """Runs reads on a database in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._database = Database(with_options(url, f"-cstatement_timeout={_STATEMENT_SECONDS * 1000}"), pool_size=2)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="lookout", daemon=True).start()

    def read(self, question: Callable[[Database], Awaitable[T]]) -> T:
        """The answer; raises what the read raises, and `TimeoutError` when it takes too long."""

        async def ask() -> T:
            return await asyncio.wait_for(question(self._database), _READ_SECONDS)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()

    def close(self) -> None:
        """Close the connections and end the thread."""
        asyncio.run_coroutine_threadsafe(self._database.close(), self._loop).result(_READ_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)


@lru_cache(maxsize=4)
def lookout_for(url: str) -> Lookout:
    """The process's one lookout for a database."""
    return Lookout(url)
