"""PostgreSQL as the engine's store: each part in a module of its own, over one database."""

from __future__ import annotations

import psycopg
from sqlalchemy.ext.asyncio import AsyncSession

from qtg_dagster.store.backlog import Backlogs
from qtg_dagster.store.claims import Claims
from qtg_dagster.store.database import DATABASE_ERRORS, Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.store.moves import Moves
from qtg_dagster.store.runners import Runners
from qtg_dagster.store.work import WorkOrders


class PostgresStore(Claims, WorkOrders, Moves, Runners, Backlogs, Heartbeats):
    """What `engine.ports.Store` asks for, in a migrated database."""

    failures = DATABASE_ERRORS

    def is_transient(self, error: Exception) -> bool:
        """Whether the same call may succeed a moment later."""
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError))

    def session(self) -> AsyncSession:
        """A session that takes a connection only when it is used."""
        return self._database.session()

    @property
    def database(self) -> Database:
        """Where people's decisions are written."""
        return self._database
