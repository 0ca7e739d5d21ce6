"""Doctor's checks of this machine and its database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from qtg_dagster.host.database import dagster_url, database_urls
from qtg_dagster.host.findings import Finding
from qtg_dagster.host.paths import state_home
from qtg_dagster.settings import Settings

_LEAST_FREE_BYTES = 1_000_000_000
_OLDEST_POSTGRES = 150_000


def state_folder(_settings: Settings) -> Iterator[Finding]:
    """The state folder, or the folder it will be made in, can be written."""
    home = state_home()
    place = next(folder for folder in (home, *home.parents) if folder.is_dir())
    writable = os.access(place, os.W_OK | os.X_OK)
    yield Finding("state folder", writable, str(home), f"make {place} writable, or set QTG_HOME")


def disk(_settings: Settings) -> Iterator[Finding]:
    """There is room for the database to grow."""
    home = state_home()
    place = next(folder for folder in (home, *home.parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    yield Finding("disk space", free > _LEAST_FREE_BYTES, f"{free / 1e9:.1f} GB free at {place}", "free some space")


def database(settings: Settings) -> Iterator[Finding]:
    """It answers, is new enough, and is reached without a pooler between."""
    import psycopg

    with psycopg.connect(settings.database_url, connect_timeout=5) as connection:
        version = connection.info.server_version
        shown = f"PostgreSQL {version // 10000}.{version % 10000} as {connection.info.user} on {connection.info.dbname}"
        yield Finding("database", version >= _OLDEST_POSTGRES, shown, "use PostgreSQL 15 or newer")
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        direct = row is not None and row[0] == connection.info.backend_pid
        yield Finding(
            "direct connection",
            direct,
            "session locks hold" if direct else "a pooler stands between: session locks would not hold",
            "let DATABASE_URL name the server itself",
        )


def migrations(settings: Settings) -> Iterator[Finding]:
    """The schema is the one this version needs."""
    from qtg_dagster.store.migrate import pending

    missing = pending(settings.database_url)
    yield Finding(
        "migrations", not missing, f"pending: {', '.join(missing)}" if missing else "at head", "`./qtg migrate`"
    )


def dagster_storage(settings: Settings) -> Iterator[Finding]:
    """Dagster's tables are there and can be read the way Dagster reads them."""
    from sqlalchemy import create_engine, text

    engine = create_engine(dagster_url(database_urls(settings).dagster))
    try:
        with engine.connect() as connection:
            there = connection.execute(text("SELECT to_regclass('event_logs') IS NOT NULL")).scalar()
            runs = connection.execute(text("SELECT count(*) FROM runs")).scalar() if there else 0
    finally:
        engine.dispose()
    detail = f"{runs} runs" if there else "no tables yet"
    yield Finding("dagster storage", bool(there), detail, "`./qtg up` makes them at its first start")
