"""Callbacks on the engine's database, delivered under the sender's role to real servers on this machine."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.roles import SENDER
from tests.callbacks.authority import Authority
from tests.callbacks.post import Post, Resolved
from tests.callbacks.receiver import Receiver
from tests.conftest import as_role
from tests.engine.conftest import *  # noqa: F403
from tests.engine.desk import Desk

Start = Callable[..., Awaitable[Receiver]]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who vouches for receivers' names."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def receiver() -> AsyncIterator[Start]:
    """Starts receivers; all are gone after the test."""
    started: list[Receiver] = []

    async def start(tls: ssl.SSLContext | None = None) -> Receiver:
        started.append(await Receiver.start(tls))
        return started[-1]

    yield start
    for each in started:
        await each.stop()


@pytest.fixture
def resolved() -> Resolved:
    """What names lead to."""
    return Resolved()


@pytest.fixture
async def post(desk: Desk, database_url: str, resolved: Resolved, authority: Authority) -> AsyncIterator[Post]:
    """The courier of this database's callbacks, with hosts of this machine allowed."""
    desk.under(callback_allowed_hosts="127.0.0.1", callback_timeout_seconds=5, inventory_file=_inventory(authority))
    database = Database(as_role(database_url, SENDER), pool_size=5)
    async with PostgresStore(database).runner(RunnerIdentity("deliver", "sandbox")) as runner:
        made = Post(desk, database, runner, resolved, authority.file)
        yield made
        await made.close()
    await database.close()


def _inventory(authority: Authority) -> Path:
    secret = authority.folder / "secret"
    secret.write_text(Post.SECRET)
    path = authority.folder / "inventory.yaml"
    path.write_text(f"callbacks: {{secret: {{file: {secret}}}}}\n")
    return path
