"""PostgreSQL as the engine's store: each part in a module of its own, over one database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg

from qtg_dagster.store.backlog import Backlogs
from qtg_dagster.store.claims import Claims
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.store.moves import Moves
from qtg_dagster.store.pending import Pending
from qtg_dagster.store.runners import Runners
from qtg_dagster.store.velocity import Velocity
from qtg_dagster.store.work import WorkOrders

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from qtg_dagster.store.database import Transaction
    from qtg_dagster.store.decisions import PostgresDecisions


#: What passes by itself: connection lost, no room, server stopping or starting, serialization failure, deadlock.
_PASSING = ("08", "53", "57P", "40001", "40P01")


class PostgresStore(Claims, WorkOrders, Moves, Pending, Velocity, Runners, Backlogs, Heartbeats):
    """What `engine.ports.Store` asks for, in a migrated database."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What a database that fails, or cannot be reached, raises."""
        from qtg_dagster.store.sessions import DATABASE_ERRORS

        return DATABASE_ERRORS

    def is_transient(self, error: Exception) -> bool:
        """Whether the same call may succeed a moment later."""
        if isinstance(error, psycopg.Error) and error.sqlstate is not None:
            return error.sqlstate.startswith(_PASSING)
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError))

    def session(self) -> AsyncSession:
        """A session that takes a connection only when it is used."""
        return self._database.session()

    @asynccontextmanager
    async def deciding(self, transaction: Transaction | None = None) -> AsyncIterator[PostgresDecisions]:
        """The caller's transaction, which stays the caller's to commit; or one of our own."""
        from qtg_dagster.store.decisions import PostgresDecisions  # needs SQLAlchemy, which the money path does without

        async with self._database.within(transaction) as tx:
            yield PostgresDecisions(tx, ours=transaction is None)

    @property
    def database(self) -> Database:
        """Where people's decisions are written."""
        return self._database
