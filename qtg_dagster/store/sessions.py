"""SQLAlchemy on our database: for all that is not the money path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from qtg_dagster.store.database import Transaction
from qtg_dagster.store.pool import PLAN_ONCE, server_is_there
from qtg_dagster.store.urls import sqlalchemy_url, with_options

#: What a database that fails, or cannot be reached, raises.
DATABASE_ERRORS = (psycopg.Error, SQLAlchemyError, OSError)


def open_engine(url: str, pool_size: int) -> AsyncEngine:
    """An engine over at most `pool_size` connections, opened when needed."""
    engine = create_async_engine(
        sqlalchemy_url(with_options(url, PLAN_ONCE)),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        # Few connections, used again and again: each prepares and plans a statement once.
        pool_use_lifo=True,
        connect_args={"application_name": "qtg", "prepare_threshold": 0},
    )
    event.listen(engine.sync_engine, "checkout", _refuse_dead_connection)
    return engine


def _refuse_dead_connection(connection: Any, _record: object, _proxy: object) -> None:
    """Have the pool open another one when the server has hung up; unlike a ping, it costs no round trip."""
    if not server_is_there(connection.driver_connection):
        raise DisconnectionError


async def last_row(
    transaction: Transaction, statements: Sequence[bytes], bound: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Run statements in their order on the transaction's connection; the first row of the last one.

    One after the other: libpq's pipeline costs more of our CPU than the round trip it saves (0.25 ms a use).
    """
    cursor = (await _driver(transaction)).cursor(row_factory=dict_row)
    for sql in statements:
        await cursor.execute(sql, bound)
    return await cursor.fetchone()


async def execute_and_commit(transaction: Transaction, sql: bytes, bound: Mapping[str, Any]) -> None:
    """Run the last statement of a transaction and commit it, without SQLAlchemy's own way there."""
    driver = await _driver(transaction)
    await driver.execute(sql, bound)
    await driver.commit()


async def _driver(transaction: Transaction) -> psycopg.AsyncConnection[Any]:
    connection = await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
    driver: psycopg.AsyncConnection[Any] = (await connection.get_raw_connection()).driver_connection  # type: ignore[assignment]
    return driver
