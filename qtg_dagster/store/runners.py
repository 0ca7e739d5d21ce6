"""Who is alive: each runner holds the session lock of its id for as long as it lives.

A dead process or a dead session frees the lock at once, with no timer; that is what makes its claims claimable.
"""

from __future__ import annotations

import os
import socket
import zlib
from types import TracebackType
from typing import LiteralString, Self

import psycopg
import structlog

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.database import Database, OnDatabase
from qtg_dagster.store.lines import answering
from qtg_dagster.store.wakeups import Wakeups

log = structlog.get_logger("qtg.store")

#: First key of the two-key advisory lock that a runner holds; the second is its id.
RUNNER_LOCK_CLASS = 5329991
#: First key of the locks of drain slots.
SLOT_LOCK_CLASS = 5329992


#: Locks of one slot. Whoever finds that the holder of one hangs goes to the next.
SLOT_LOCKS = 4
#: How often a runner that waits for its slot looks whether the holder hangs.
_LOOK_SECONDS = 1.0

_SUCCESSORS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid::bigint = %s "
    "AND objsubid = 2 AND NOT granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# A drain that goes its rounds asks something in its session every few seconds.
_HANGS = (
    "SELECT coalesce(bool_and(a.state = 'idle' AND a.state_change < clock_timestamp() - make_interval(secs => %s)), "
    "false) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
    "WHERE locktype = 'advisory' AND classid = %s AND objid::bigint = %s AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def slot_number(kind: str, network_class: str, slot: int = 0, lock: int = 0) -> int:
    """The number of one of a slot's locks: 31 bits of its name."""
    name = f"{network_class}:{kind}:{slot}" if slot or lock else f"{network_class}:{kind}"
    name = f"{name}:{lock}" if lock else name
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


class Runner:
    """A registered runner and the connection that is its life. Use as an async context manager."""

    def __init__(self, database: Database, identity: RunnerIdentity) -> None:
        self._database = database
        self.identity = identity
        self.runner_id = 0
        self._lock = 0
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    @property
    def connection(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        """The session that holds the lock; raises `StaleClaim` when it is gone."""
        if self._connection is None or self._connection.closed:
            raise StaleClaim(f"runner {self.runner_id} lost the session that holds its lock")
        return self._connection

    async def __aenter__(self) -> Self:
        self._connection = await self._database.direct_connection()
        with answering(self._connection):
            await self._register(self._connection)
        return self

    async def _register(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        # One statement: whoever sees the row finds its lock held, or its runner dead.
        cursor = await connection.execute(
            "WITH registered AS (INSERT INTO qtg.runners (kind, network_class, slot, host, pid, dagster_run_id) "
            "VALUES (%s, %s, %s, %s, %s, %s) RETURNING id) "
            "SELECT id, pg_advisory_lock(%s, id::int), set_config('lock_timeout', %s, false) FROM registered",
            (
                self.identity.kind,
                self.identity.network_class,
                self.identity.slot,
                socket.gethostname(),
                os.getpid(),
                self.identity.dagster_run_id,
                RUNNER_LOCK_CLASS,
                f"{_LOOK_SECONDS * 1000:.0f}",
            ),
        )
        row = await cursor.fetchone()
        assert row is not None  # noqa: S101 - RETURNING gives a row
        self.runner_id = int(str(row[0]))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._connection
        if connection is None or connection.closed:
            return
        reason = "finished" if error is None else f"{type(error).__name__}"
        try:
            with answering(connection):
                await connection.execute(
                    "UPDATE qtg.runners SET ended_at = now(), end_reason = %s WHERE id = %s", (reason, self.runner_id)
                )
                # The server notices a closed connection a moment later; whoever comes next need not wait for that.
                await connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.OperationalError as lost:
            # The lock went with the session: all that is missing is the note of when.
            log.warning("runner's end not recorded", runner=self.runner_id, error=str(lost))
        await connection.close()

    async def check_alive(self) -> None:
        """Raise `StaleClaim` unless the session still answers: a runner without its lock must not start anything."""
        with answering(self.connection):
            await self._ask("SELECT 1")

    async def take_slot(self, overdue_seconds: float) -> None:
        """Wait until this runner's slot is free and take it for the life of its session; raises `StaleClaim`.

        A holder whose session has been silent for that long hangs, and is not waited for: what it has claimed stays its
        own, what nobody has claimed is worked beside it.
        """
        while not await self._try_lock():
            if self._lock + 1 < SLOT_LOCKS and await self._holder_hangs(overdue_seconds):
                log.error("a runner hangs; its slot is taken beside it", kind=self.identity.kind, lock=self._lock)
                self._lock += 1

    async def _try_lock(self) -> bool:
        try:
            await self.connection.execute("SELECT pg_advisory_lock(%s, %s)", (SLOT_LOCK_CLASS, self._slot()))
        except psycopg.errors.LockNotAvailable:
            return False
        except psycopg.Error as error:
            raise self._lost(error) from error
        return True

    async def _holder_hangs(self, overdue_seconds: float) -> bool:
        with answering(self.connection):
            cursor = await self._ask(_HANGS, overdue_seconds, SLOT_LOCK_CLASS, self._slot())
        row = await cursor.fetchone()
        return row is not None and bool(row[0])

    async def successor_waits(self) -> bool:
        """Whether another drain waits for this runner's slot; raises `StaleClaim`."""
        with answering(self.connection):
            cursor = await self._ask(_SUCCESSORS, SLOT_LOCK_CLASS, self._slot())
        row = await cursor.fetchone()
        return row is not None and int(str(row[0])) > 0

    def _slot(self) -> int:
        return slot_number(self.identity.kind, self.identity.network_class, self.identity.slot, self._lock)

    async def _ask(self, statement: LiteralString, *bound: float) -> psycopg.AsyncCursor[tuple[object, ...]]:
        try:
            return await self.connection.execute(statement, bound or None)
        except psycopg.Error as error:
            raise self._lost(error) from error

    def _lost(self, error: psycopg.Error) -> StaleClaim:
        return StaleClaim(f"runner {self.runner_id} lost the session that holds its lock: {error}")


class Runners(OnDatabase):
    """Who works, and what wakes them."""

    def runner(self, identity: RunnerIdentity) -> Runner:
        """A runner, registered while its block runs."""
        return Runner(self._database, identity)

    def wakeups(self, kind: str) -> Wakeups:
        """Word of commits that made work of this kind, while its block runs."""
        return Wakeups(self._database, kind)
