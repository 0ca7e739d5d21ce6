"""One PostgreSQL a session, one fresh database a test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.server import drop_database
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.host.processes import started_at

_HOMES = "qtg-tests-"
_TEMPLATE = "qtg_template"


@pytest.fixture(scope="session", autouse=True)
def authorities_are_read_once() -> Iterator[None]:
    """httpx reads the list of certificate authorities for each client it makes, which takes longer than most tests."""
    from httpx._config import create_ssl_context
    from httpx._transports import default

    shared = create_ssl_context(trust_env=False)

    def contexts(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        own = verify is not True or cert is not None
        return create_ssl_context(verify, cert, trust_env) if own else shared

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(default, "create_ssl_context", contexts)
        yield


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder of this test's own, in memory where the system has a place for it: what is there outlives processes."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is ours alone
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix=_HOMES, dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a PostgreSQL of this session (not durable); its database is empty and shared."""
    _remove_homes_of_dead_sessions()
    home = Path(tempfile.mkdtemp(prefix=f"{_HOMES}{os.getpid()}-"))
    home.chmod(0o711)  # under root the server runs as another user, who must pass through
    server = EmbeddedPostgres(home, fast=True)
    try:
        yield server.start()
    finally:
        server.destroy()
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def new_database(postgres_url: str) -> Iterator[Callable[..., str]]:
    """Make a database (of a template's content when one is named) and give its URL; all go when the session ends."""
    numbers = itertools.count(1)
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def make(template: str = "template1", name: str | None = None) -> str:
            name = name or f"test_{next(numbers)}"
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
            return url_of_database(postgres_url, name)

        yield make


@pytest.fixture(scope="session")
def migrated_template(postgres_url: str, new_database: Callable[..., str]) -> str:
    """Name of a database at the newest migration, to be copied; nobody connects to it."""
    from qtg_dagster.store.migrate import upgrade

    upgrade(new_database(name=_TEMPLATE))
    return _TEMPLATE


@pytest.fixture
def database_url(postgres_url: str, new_database: Callable[..., str], migrated_template: str) -> Iterator[str]:
    """URL (`postgresql://`) of a fresh database at the newest migration; dropped after the test."""
    url = new_database(migrated_template)
    yield url
    _drop(postgres_url, url)


@pytest.fixture
def empty_database_url(postgres_url: str, new_database: Callable[..., str]) -> Iterator[str]:
    """URL of a fresh database without any table; dropped after the test."""
    url = new_database()
    yield url
    _drop(postgres_url, url)


def as_role(url: str, role: str) -> str:
    """The URL of a database of this session for one of the roles that do not own it."""
    return url.replace("//qtg@", f"//{role}@", 1)


def url_of_database(postgres_url: str, name: str) -> str:
    """The session's URL with another database's name."""
    return postgres_url.replace("@/qtg?", f"@/{name}?", 1)


def _drop(postgres_url: str, url: str) -> None:
    name = url.partition("@/")[2].partition("?")[0]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        drop_database(connection, name)


def _remove_homes_of_dead_sessions() -> None:
    """A killed test session cannot stop its server: the next one does."""
    for home in Path(tempfile.gettempdir()).glob(f"{_HOMES}*-*"):
        pid = int(home.name.removeprefix(_HOMES).partition("-")[0])
        if home.stat().st_uid == os.geteuid() and started_at(pid) is None:
            EmbeddedPostgres(home, fast=True).destroy()
            shutil.rmtree(home)
