"""Connections to PostgreSQL: a small pool for short transactions, and direct ones for locks and LISTEN."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.store.migrate import sqlalchemy_url
from qtg_dagster.store.pool import PLAN_ONCE, Connection, ConnectionPool, server_is_there

#: What a statement can be run on: a transaction of ours, or the caller's own session.
Transaction: TypeAlias = AsyncConnection | AsyncSession
#: What a database that fails, or cannot be reached, raises here.
DATABASE_ERRORS = (psycopg.Error, SQLAlchemyError, OSError)


class Database:
    """One PostgreSQL database. Nothing here holds a connection longer than its transaction."""

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        if not url:
            raise ConfigurationError("DATABASE_URL: no database; set it, or start the embedded one with `qtg up`")
        self.url = url
        self._direct_url = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._pool = ConnectionPool(self._direct_url, pool_size)
        self._engine: AsyncEngine = create_async_engine(
            sqlalchemy_url(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=10,
            # Few connections, used again and again: each prepares and plans a statement once.
            pool_use_lifo=True,
            connect_args={"application_name": "qtg", "prepare_threshold": 0},
        )
        event.listen(self._engine.sync_engine, "connect", _plan_once)
        event.listen(self._engine.sync_engine, "checkout", _refuse_dead_connection)

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
        return AsyncSession(self._engine, expire_on_commit=False)

    async def direct_connection(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        """A connection of one's own, outside the pool, in autocommit: for session locks and LISTEN.

        Raises `ConfigurationError` behind a pooler: there the session that holds a lock is not the session that
        the next statement runs in, so ownership would mean nothing.
        """
        connection = await psycopg.AsyncConnection.connect(
            self._direct_url, autocommit=True, application_name="qtg lock"
        )
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
        await self._engine.dispose()


async def read_rows(
    transaction: Transaction, statements: Sequence[bytes], bound: Mapping[str, Any]
) -> list[dict[str, Any] | None]:
    """The first row of each statement, all sent at once and run in their order on the transaction's connection."""
    connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
    driver: psycopg.AsyncConnection[Any] = (await connection.get_raw_connection()).driver_connection  # type: ignore[assignment]
    async with driver.pipeline():
        cursors = [driver.cursor(row_factory=dict_row) for _ in statements]
        for cursor, sql in zip(cursors, statements, strict=True):
            await cursor.execute(sql, bound)
        return [await cursor.fetchone() for cursor in cursors]


def _plan_once(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(PLAN_ONCE)
    cursor.close()
    connection.commit()


def _refuse_dead_connection(connection: Any, _record: object, _proxy: object) -> None:
    """Have the pool open another one when the server has hung up; unlike a ping, it costs no round trip."""
    if not server_is_there(connection.driver_connection):
        raise DisconnectionError


class OnDatabase:
    """A part of the store: it works on one database, and holds no connection between two calls."""

    def __init__(self, database: Database) -> None:
        self._database = database
