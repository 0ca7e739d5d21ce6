"""Which database this machine's QTG uses, and its URL in the dialects that its parts speak."""

from __future__ import annotations

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.paths import state_home
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import Settings
from qtg_dagster.store.urls import plain_url, with_options, with_scheme

DAGSTER_SCHEMA = "dagster"


def database_url(settings: Settings) -> str:
    """`DATABASE_URL`, else the running embedded server; raises `ConfigurationError` when there is neither."""
    if settings.database_url:
        return plain_url(settings.database_url)
    server = EmbeddedPostgres(state_home())
    if not server.is_alive():
        raise ConfigurationError(
            f"no database: DATABASE_URL is not set and the embedded PostgreSQL of {server.home} does not run. "
            "Start it with `qtg up`, or set DATABASE_URL=postgresql://user:password@host/database"
        )
    return server.url


def dagster_url(url: str) -> str:
    """The URL for Dagster's own storage: psycopg2, which it is written for, and a schema of its own."""
    return with_options(with_scheme(url, "postgresql+psycopg2"), f"-csearch_path={DAGSTER_SCHEMA}")
