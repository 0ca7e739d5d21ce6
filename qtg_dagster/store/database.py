"""Connections to PostgreSQL: a small pool for short transactions, and direct ones for locks and LISTEN."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import psycopg

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.store.lines import THEIR_END, parameters
from qtg_dagster.store.pool import Connection, ConnectionPool
from qtg_dagster.store.urls import plain_url, with_options

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

#: What a statement can be run on: a transaction of ours, or the caller's own session.
Transaction: TypeAlias = "AsyncConnection | AsyncSession"


class Database:
    """One PostgreSQL database. Nothing here holds a connection longer than its transaction.

    SQLAlchemy is imported with the first transaction: a worker that starts again moves money before it needs one.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        if not url:
            raise ConfigurationError("DATABASE_URL: no database; set it, or start the embedded one with `qtg up`")
        self.url = url
        self._direct_url = plain_url(url)
        self._pool_size = pool_size
        self._pool = ConnectionPool(self._direct_url, pool_size)

    @cached_property
    def _engine(self) -> AsyncEngine:
        from qtg_dagster.store.sessions import open_engine

        return open_engine(self._direct_url, self._pool_size)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that commits at the end of the block and rolls back when it raises."""
        async with self._engine.begin() as connection:
            yield connection

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection in autocommit for the money path: each statement is a transaction of its own."""
        return self._pool.connection()

    @asynccontextmanager
    async def within(self, transaction: Transaction | None) -> AsyncIterator[Transaction]:
        """The caller's transaction, which stays the caller's to commit; or one of our own."""
        if transaction is not None:
            yield transaction
        else:
            async with self.transaction() as own:
                yield own

    def session(self) -> AsyncSession:
        """A session that takes a connection only when it is used."""
        from sqlalchemy.ext.asyncio import AsyncSession

        return AsyncSession(self._engine, expire_on_commit=False)

    async def direct_connection(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        """A connection of one's own, outside the pool, in autocommit: for session locks and LISTEN.

        Raises `ConfigurationError` behind a pooler: there the session that holds a lock is not the session that
        the next statement runs in, so ownership would mean nothing.
        """
        given = parameters(with_options(self._direct_url, THEIR_END))
        connection = await psycopg.AsyncConnection.connect(autocommit=True, **{"application_name": "qtg lock", **given})
        row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
        if row is None or row[0] != connection.info.backend_pid:
            await connection.close()
            raise ConfigurationError(
                "DATABASE_URL leads through a connection pooler; runners own their work by session locks and need a "
                "direct connection to PostgreSQL"
            )
        return connection

    async def close(self) -> None:
        """Close all that is not in use."""
        await self._pool.close()
        if "_engine" in self.__dict__:
            await self._engine.dispose()


class OnDatabase:
    """A part of the store: it works on one database, and holds no connection between two calls."""

    def __init__(self, database: Database) -> None:
        self._database = database


class InTransaction:
    """A part of the store that works within one transaction, `ours` to commit or the caller's."""

    def __init__(self, transaction: Transaction, *, ours: bool = False) -> None:
        self._tx = transaction
        self._ours = ours
