"""Dagster's own storage on PostgreSQL with pooled connections.

As shipped it opens a connection for every call, which costs ten times the statement itself, and asks the catalog at
every tick of every sensor whether its own tables are there. Named in `dagster.yaml`.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from dagster import Field, StringSource
from dagster._serdes import ConfigurableClassData
from dagster_postgres.schedule_storage.schedule_storage import PostgresScheduleStorage
from dagster_postgres.storage import DagsterPostgresStorage
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError

from qtg_dagster.host.database import DAGSTER_URL_VARIABLE, dagster_url, database_urls
from qtg_dagster.host.paths import state_home
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import load_settings

_log = logging.getLogger("dagster.qtg")
URL_VARIABLE = DAGSTER_URL_VARIABLE


class PooledPostgresStorage(DagsterPostgresStorage):
    """Dagster's run, event and schedule storage over one pool a process.

    The code server makes an instance for each tick. What the first one learned of the tables is kept for the others.
    """

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        known = _known_schema(postgres_url)
        super().__init__(postgres_url, should_autocreate_tables=not known.tables_are_there, inst_data=inst_data)
        self._schedule_storage = _ScheduleStorage(postgres_url, known)
        # The storages take no engine and no memory of their own.
        self._run_storage._index_migration_cache = known.run_indexes  # noqa: SLF001
        self._event_log_storage._secondary_index_cache = known.event_indexes  # noqa: SLF001
        for storage in (self._run_storage, self._event_log_storage, self._schedule_storage):
            storage._engine = shared_engine(postgres_url)  # noqa: SLF001
        known.tables_are_there = True

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        return {"postgres_url": Field(StringSource, is_required=False)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(config_value.get("postgres_url") or storage_url(), inst_data=inst_data)


@dataclass
class _KnownSchema:
    """What this process knows of the tables at one URL. They come with an upgrade of Dagster and never go."""

    tables_are_there: bool = False
    run_indexes: dict[str, bool] = field(default_factory=dict)
    event_indexes: dict[str, bool] = field(default_factory=dict)
    schedule_indexes: set[str] = field(default_factory=set)
    schedule_tables: set[str] = field(default_factory=set)


@lru_cache
def _known_schema(url: str) -> _KnownSchema:  # noqa: ARG001 - one for each
    return _KnownSchema()


class _ScheduleStorage(PostgresScheduleStorage):
    """The schedule storage, which asks once for each table and each index that is there."""

    def __init__(self, postgres_url: str, known: _KnownSchema) -> None:
        super().__init__(postgres_url, should_autocreate_tables=False)
        self._known = known

    def has_instigators_table(self) -> bool:
        return "instigators" in self._known.schedule_tables or bool(super().has_instigators_table())

    def _has_instigators_table(self, conn: Connection) -> bool:
        if "instigators" not in self._known.schedule_tables and super()._has_instigators_table(conn):
            self._known.schedule_tables.add("instigators")
        return "instigators" in self._known.schedule_tables

    def has_built_index(self, migration_name: str) -> bool:
        if migration_name not in self._known.schedule_indexes and super().has_built_index(migration_name):
            self._known.schedule_indexes.add(migration_name)
        return migration_name in self._known.schedule_indexes


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
    )
    event.listen(engine, "checkout", _refuse_a_dead_connection)
    # A forked child must neither use nor close its parent's connections.
    os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))
    return engine


def _refuse_a_dead_connection(connection: Any, _record: object, _proxy: object) -> None:
    """Nobody speaks on an idle connection but a server that ends it; asking it would cost every call a second one."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    if waiting.poll(0):
        raise DisconnectionError("the server has hung up")
