"""Getting what is known into the database: many outcomes in one commit, also when the database is away for a moment."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

import structlog

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.work import Move, Work
from qtg_dagster.engine.ports import Store

log = structlog.get_logger("qtg.engine")

RETRY_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Outcomes in one commit, at most.
BATCH = 64


@dataclass(frozen=True, slots=True)
class _Entry:
    work: Work
    move: Move
    written: asyncio.Future[Advance]


class Recorder:
    """Writes outcomes. What arrives while a commit is under way shares the next one; nothing waits for company.

    Only outcomes are merged, never an intent. A move that fails for a reason of its own is written alone, so that it
    takes no other down with it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[_Entry] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def record(self, work: Work, move: Move) -> Advance:
        """Record a move, again after short waits while the database fails or cannot be reached.

        Safe to repeat: when a first write did commit and only its answer was lost, the second finds the node moved on,
        changes nothing and raises `StaleClaim`. When all tries fail the error is raised; recovery finds the rest.
        """
        entry = _Entry(work, move, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="outcomes")
        return await entry.written

    async def _write_all(self) -> None:
        while self._waiting:
            await self._write(self._next_batch())

    def _next_batch(self) -> list[_Entry]:
        """The oldest entries, one a movement: what a second one means depends on the first."""
        batch: list[_Entry] = []
        movements: set[str] = set()
        later: list[_Entry] = []
        while self._waiting and len(batch) < BATCH:
            entry = self._waiting.popleft()
            request_id = entry.work.claim.request_id
            (later if request_id in movements else batch).append(entry)
            movements.add(request_id)
        self._waiting.extendleft(reversed(later))
        return batch

    async def _write(self, batch: list[_Entry]) -> None:
        try:
            found = await self._persist(batch)
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, Exception) and not self._store.is_transient(error):
                for entry in batch:
                    await self._write([entry])
                return
            for entry in batch:
                if not entry.written.done():
                    entry.written.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for entry, outcome in zip(batch, found, strict=True):
            if entry.written.done():
                continue
            if isinstance(outcome, StaleClaim):
                entry.written.set_exception(outcome)
            else:
                entry.written.set_result(outcome)

    async def _persist(self, batch: list[_Entry]) -> list[Advance | StaleClaim]:
        moves = [(entry.work, entry.move) for entry in batch]
        for delay in RETRY_DELAYS:
            try:
                return await self._store.record_moves(moves)
            except Exception as error:
                if not self._store.is_transient(error):
                    raise
                log.warning(
                    "database unreachable, outcomes kept in memory",
                    nodes=[work.claim.node_id for work, _ in moves],
                    retry_in=delay,
                    error=type(error).__name__,
                )
            await asyncio.sleep(delay)
        return await self._store.record_moves(moves)
