"""Which database this machine's QTG uses, and its URLs for those who connect."""

from __future__ import annotations

import os
from dataclasses import dataclass

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.paths import state_home
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import Settings
from qtg_dagster.store.roles import APP, DAGSTER, RETENTION, SENDER, SIGNER
from qtg_dagster.store.urls import plain_url, with_options, with_scheme

DAGSTER_SCHEMA = "dagster"
DAGSTER_URL_VARIABLE = "QTG_DAGSTER_DATABASE_URL"


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """The plain URLs of one database, by who connects. All are alike where QTG was given a single one."""

    owner: str  # migrations
    app: str  # drains, schedules, operators
    signer: str  # the signers' journal
    sender: str  # the delivery of callbacks and audit entries
    retention: str  # the deletion of what has settled
    dagster: str  # Dagster's own storage

    @classmethod
    def of(cls, server: EmbeddedPostgres) -> DatabaseUrls:
        """Each as a role of its own."""
        app, signer, sender, retention, dagster = map(server.url_of, (APP, SIGNER, SENDER, RETENTION, DAGSTER))
        return cls(server.url, app, signer, sender, retention, dagster)

    @classmethod
    def given(cls, settings: Settings) -> DatabaseUrls:
        """As the settings have them: another server, whose roles its administrator gives out."""
        url = plain_url(settings.database_url)
        dagster = plain_url(os.environ.get(DAGSTER_URL_VARIABLE) or url)
        own = (settings.signer_database_url, settings.sender_database_url, settings.retention_database_url)
        signer, sender, retention = (plain_url(each or url) for each in own)
        return cls(url, url, signer, sender, retention, dagster)


def database_urls(settings: Settings) -> DatabaseUrls:
    """Of `DATABASE_URL`, else of the running embedded server; raises `ConfigurationError` when there is neither."""
    server = EmbeddedPostgres(state_home())
    if settings.database_url and not server.serves(plain_url(settings.database_url)):
        return DatabaseUrls.given(settings)
    if not settings.database_url and not server.is_alive():
        raise ConfigurationError(
            f"no database: DATABASE_URL is not set and the embedded PostgreSQL of {server.home} does not run. "
            "Start it with `qtg up`, or set DATABASE_URL=postgresql://user:password@host/database"
        )
    return DatabaseUrls.of(server)


def dagster_url(url: str) -> str:
    """The URL for Dagster's own storage: psycopg2, which it is written for, and its own schema unless it names one."""
    driven = with_scheme(url, "postgresql+psycopg2")
    return driven if "search_path" in driven else with_options(driven, f"-csearch_path={DAGSTER_SCHEMA}")
