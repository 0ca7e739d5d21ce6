"""The money path's connections: one that the server has left is not handed out again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from qtg_dagster.store.database import Database
from tests.engine.plans import until


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, pool_size=1)
    yield database
    await database.close()


async def backend(database: Database) -> int:
    async with database.connection() as connection:
        row = await (await connection.execute("SELECT pg_backend_pid() AS pid")).fetchone()
    assert row is not None
    return int(row["pid"])


async def test_a_connection_is_kept(database: Database) -> None:
    assert await backend(database) == await backend(database)


async def test_one_that_the_server_ended_is_replaced_without_an_error(database: Database, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as other:
        for _ in range(20):
            pid = await backend(database)
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            assert await backend(database) != pid


async def test_a_farewell_is_enough_also_before_the_line_is_cut(database: Database, database_url: str) -> None:
    pid = await backend(database)
    async with database.connection() as connection:
        await connection.execute("LISTEN words")  # what the server says unasked arrives as a farewell does
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("NOTIFY words")

        async def another_is_used() -> bool:
            return await backend(database) != pid

        await until(another_is_used, "the connection is replaced")
