"""Alerts under the rights of who delivers, and servers that take messages or do not."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import SENDER
from tests.conftest import as_role
from tests.engine.conftest import *  # noqa: F403
from tests.upkeep.alerts.receivers import HttpReceiver, MailReceiver


@pytest.fixture
async def sender(database_url: str) -> AsyncIterator[Database]:
    """The database as the delivery drain opens it."""
    database = Database(as_role(database_url, SENDER), pool_size=3)
    yield database
    await database.close()


@pytest.fixture
def settings(database_url: str) -> Settings:
    """Everything is told at once, and is over at once."""
    return Settings(database_url=database_url, notify_enabled=True, notify_settle_seconds=0)


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailReceiver]:
    # A machine whose name no server knows waits for seconds to learn that, with each mail.
    monkeypatch.setattr(socket, "getfqdn", lambda *_: "desk.example")
    with MailReceiver() as receiver:
        yield receiver
