"""One PostgreSQL for all cases of a run, with its durability settings on, and a fresh database for each case."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.store.migrate import upgrade

SHOWN = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_connections",
    "jit",
)


@contextmanager
def server(url: str = "") -> Iterator[str]:
    """The given server's URL, or that of an embedded one for the time of the block."""
    if url:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="qtg-bench-") as home:
        Path(home).chmod(0o711)
        embedded = EmbeddedPostgres(Path(home))
        try:
            yield embedded.start()
        finally:
            embedded.destroy()


def settings_of(url: str) -> dict[str, str]:
    """What the server runs with, as far as it bears on the figures."""
    with psycopg.connect(url) as connection:
        return {name: str(connection.execute(f"SHOW {name}").fetchone()[0]) for name in SHOWN}  # type: ignore[index]


@contextmanager
def fresh_database(url: str, name: str, *, migrated: bool = True) -> Iterator[str]:
    """A database of its own on that server, dropped at the end."""
    with psycopg.connect(url, autocommit=True) as connection:
        drop_database(connection, name)
        connection.execute(f'CREATE DATABASE "{name}"')
        connection.execute("CHECKPOINT") if _may_checkpoint(connection) else None
    own = make_url(url).set(database=name).render_as_string(hide_password=False)
    try:
        if migrated:
            upgrade(own)
        yield own
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            drop_database(connection, name)


def drop_database(connection: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    """Drop a database and end who is in it.

    Not WITH (FORCE): that is refused while autovacuum, which is not ours to end, looks at the database. The plain drop
    waits for it, once our own sessions have gone.
    """
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'",
        (name,),
    )
    connection.execute(f'DROP DATABASE IF EXISTS "{name}"')


def _may_checkpoint(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = connection.execute("SELECT pg_has_role(current_user, 'pg_checkpoint', 'USAGE')").fetchone()
    return row is not None and bool(row[0])
