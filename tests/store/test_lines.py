"""A database that does not answer is noticed, by whoever waits for it, within a bound."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store import lines
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from tests.postgres_proxy import PostgresProxy


@pytest.fixture
async def proxy(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresProxy]:
    """The way to the database, by people who wait for an answer for a moment only."""
    monkeypatch.setattr(lines, "ANSWER_SECONDS", 0.3)
    async with PostgresProxy(database_url) as proxy:
        yield proxy


@pytest.fixture
async def through(proxy: PostgresProxy) -> AsyncIterator[PostgresStore]:
    database = Database(proxy.url, pool_size=1)
    yield PostgresStore(database)
    await database.close()


async def test_a_statement_without_an_answer_fails_and_the_next_goes_another_way(
    proxy: PostgresProxy, through: PostgresStore
) -> None:
    await through.count_backlog("sandbox")
    proxy.fall_silent()
    with pytest.raises(psycopg.OperationalError) as lost:
        await through.count_backlog("sandbox")
    assert through.is_transient(lost.value)
    assert (await through.count_backlog("sandbox")).dispatch == 0


async def test_a_runner_whose_session_does_not_answer_has_lost_it(proxy: PostgresProxy, through: PostgresStore) -> None:
    async with through.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        await runner.take_slot(60)
        proxy.fall_silent()
        with pytest.raises(StaleClaim, match="lost the session"):
            await runner.successor_waits()


async def test_no_limit_of_time_stands_over_the_wait_for_a_slot(through: PostgresStore) -> None:
    async with through.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        assert await (await runner.connection.execute("SHOW statement_timeout")).fetchone() == ("0",)


async def test_the_server_ends_what_takes_too_long(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "STATEMENT_SECONDS", 1.0)
    store = PostgresStore(Database(database_url, pool_size=1))
    async with store.database.connection() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled) as late:
            await connection.execute("SELECT pg_sleep(60)")
    assert not store.is_transient(late.value)
    await store.database.close()


def test_what_the_url_says_goes_before() -> None:
    given = lines.parameters("postgresql://h/d?connect_timeout=3&application_name=mine")
    assert (given["connect_timeout"], given["application_name"]) == ("3", "mine")
    assert given["tcp_user_timeout"] == "20000"
    url = "postgresql://h/d?options=-cstatement_timeout%3D5000"
    assert lines.with_time_limit(url) == url


@pytest.mark.parametrize(
    ("state", "passes"),
    [
        ("08006", True),
        ("57P01", True),
        ("57P03", True),
        ("53300", True),
        ("40001", True),
        ("40P01", True),
        ("57014", False),
        ("55000", False),
        ("P0001", False),
        ("23505", False),
    ],
)
def test_only_what_passes_by_itself_is_tried_again(state: str, passes: bool, database_url: str) -> None:
    store = PostgresStore(Database(database_url, pool_size=1))
    assert store.is_transient(psycopg.errors.lookup(state)("said the server")) is passes
    assert store.is_transient(psycopg.OperationalError("the connection is closed"))
