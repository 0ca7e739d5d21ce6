"""Connections for the money path: few, in autocommit, with every statement prepared.

A pool of our own rather than a library's: a checkout costs no round trip, a server that is away is told at once to
the drain that knows how to wait, and no background task decides when to try again.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

from qtg_dagster.store.lines import answering, parameters, with_time_limit
from qtg_dagster.store.urls import with_options

Connection: TypeAlias = psycopg.AsyncConnection[DictRow]

#: Planning one of our statements takes longer than running it, so each is planned once a connection, not six times.
PLAN_ONCE = "-cplan_cache_mode=force_generic_plan"
#: Every statement here is about few rows of tables that may be large, and has its index. The planner takes the rows of
#: a JSON array for a hundred, and would rather read whole tables while they are small: 900 rows for 32.
BY_INDEX = "-cenable_seqscan=off -cenable_bitmapscan=off -cenable_hashjoin=off -cenable_mergejoin=off"
#: Seconds a checkout may wait for its turn.
_PATIENCE_SECONDS = 10


class ConnectionPool:
    """At most `size` connections, opened when needed and kept; the last one given back is the next one used."""

    def __init__(self, url: str, size: int) -> None:
        self._parameters = parameters(with_time_limit(with_options(url, f"{PLAN_ONCE} {BY_INDEX}")))
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit, for a moment: it is cut when its block takes longer than an answer may.

        Raises psycopg's errors, or `TimeoutError` when none becomes free.
        """
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self._room.acquire()
        try:
            connection = await self._take()
            try:
                with answering(connection):
                    yield connection
            finally:
                await self._give_back(connection)
        finally:
            self._room.release()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if server_is_there(connection):
                return connection
            await connection.close()
        opened: Connection = await psycopg.AsyncConnection.connect(
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=0,
            **{"application_name": "qtg", **self._parameters},
        )
        return opened

    async def _give_back(self, connection: Connection) -> None:
        """Keep it, unless something broke in it: an unfinished transaction must not reach its next user."""
        if not connection.closed and connection.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            await connection.close()

    async def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().close()


def server_is_there(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the server has not hung up, as far as the socket tells without asking.

    Nobody is spoken to on an idle connection: whatever can be read there is a farewell, or the end of the stream.
    """
    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    return not waiting.poll(0)
