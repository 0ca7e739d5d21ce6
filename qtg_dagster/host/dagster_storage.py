"""Dagster's own storage on PostgreSQL with pooled connections.

As shipped it opens a connection for every call, which costs ten times the statement itself. Named in `dagster.yaml`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self

from dagster import Field, StringSource
from dagster._serdes import ConfigurableClassData
from dagster_postgres.storage import DagsterPostgresStorage
from sqlalchemy import Engine, create_engine

from qtg_dagster.host.database import DAGSTER_URL_VARIABLE, dagster_url, database_urls
from qtg_dagster.host.paths import state_home
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import load_settings

_log = logging.getLogger("dagster.qtg")
URL_VARIABLE = DAGSTER_URL_VARIABLE


class PooledPostgresStorage(DagsterPostgresStorage):
    """Dagster's run, event and schedule storage over one pool a process."""

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(postgres_url, inst_data=inst_data)
        for storage in (self._run_storage, self._event_log_storage, self._schedule_storage):
            storage._engine = shared_engine(postgres_url)  # noqa: SLF001 - the storages take no engine

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        return {"postgres_url": Field(StringSource, is_required=False)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(config_value.get("postgres_url") or storage_url(), inst_data=inst_data)


def storage_url() -> str:
    """`QTG_DAGSTER_DATABASE_URL`, else derived from `DATABASE_URL`, else the embedded server's.

    The embedded server is started and migrated when it does not run, so that Dagster's own commands work in a fresh
    checkout; `qtg down` stops it.
    """
    given = os.environ.get(URL_VARIABLE)
    if given:
        return given
    settings = load_settings()
    if not settings.database_url:
        start_embedded()
    return dagster_url(database_urls(settings).dagster)


def start_embedded() -> None:
    """Start and migrate this state folder's server unless it runs already."""
    from qtg_dagster.store.migrate import upgrade

    server = EmbeddedPostgres(state_home())
    if not server.is_alive():
        upgrade(server.start())
        _log.warning("started the embedded PostgreSQL of %s for Dagster; `qtg down` stops it", server.home)


@lru_cache
def shared_engine(url: str) -> Engine:
    """The process's one engine for that URL: AUTOCOMMIT as Dagster's own, safe over forks and server restarts."""
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_size=4,
        max_overflow=28,  # the daemon's threads; above the size, connections close after use
        pool_timeout=10,
        pool_recycle=300,
        pool_pre_ping=True,
    )
    # A forked child must neither use nor close its parent's connections.
    os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))
    return engine
