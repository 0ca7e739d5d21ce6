"""Getting intents and outcomes into the store: many in one commit, also when the store is away for a moment."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.work import Work

log = structlog.get_logger("qtg.engine")

#: None is long: the next drain of the kind waits for what this one still holds, also after the store's return.
RETRY_DELAYS = (0.05, 0.2, 0.5, 1.0, *(2.0,) * 7)
#: Seconds after which nothing is tried again; a try in itself takes as long as the store waits for an answer.
PATIENCE_SECONDS = 30.0
#: What shares one commit, at most.
BATCH = 64

Written = TypeVar("Written")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Written, Answer]):
    work: Work
    written: Written
    answer: asyncio.Future[Answer]


class Recorder(Generic[Written, Answer]):
    """Writes what belongs to works. What arrives while a commit is under way shares the next one; nothing waits for
    company. What fails for a reason of its own is written alone, so that it takes no other down with it.

    `write` is atomic, and answers each or says why it was fenced. While `is_transient` says so, it is tried again
    after each of `delays` seconds.
    """

    def __init__(
        self,
        write: Callable[[Sequence[tuple[Work, Written]]], Awaitable[Sequence[Answer | StaleClaim]]],
        is_transient: Callable[[Exception], bool],
        delays: Sequence[float] = (),
    ) -> None:
        self._write_together = write
        self._is_transient = is_transient
        self._delays = delays
        self._waiting: deque[_Entry[Written, Answer]] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def record(self, work: Work, written: Written) -> Answer:
        """Durable when this returns. Raises `StaleClaim` for what was fenced, or the error of the last try.

        An outcome is safe to repeat: when a first write did commit and only its answer was lost, the second finds the
        node moved on, changes nothing and raises `StaleClaim`; recovery finds the rest.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(work, written, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="recorder")
        return await answer

    async def _write_all(self) -> None:
        while self._waiting:
            await self._write(self._next_batch())

    def _next_batch(self) -> list[_Entry[Written, Answer]]:
        """The oldest entries, one a movement: what a second one means depends on the first."""
        batch: list[_Entry[Written, Answer]] = []
        movements: set[str] = set()
        later: list[_Entry[Written, Answer]] = []
        while self._waiting and len(batch) < BATCH:
            entry = self._waiting.popleft()
            request_id = entry.work.claim.request_id
            (later if request_id in movements else batch).append(entry)
            movements.add(request_id)
        self._waiting.extendleft(reversed(later))
        return batch

    async def _write(self, batch: list[_Entry[Written, Answer]]) -> None:
        try:
            found = await self._persist(batch)
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, Exception) and not self._is_transient(error):
                for entry in batch:
                    await self._write([entry])
                return
            for entry in batch:
                if not entry.answer.done():
                    entry.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for entry, outcome in zip(batch, found, strict=True):
            if entry.answer.done():
                continue
            if isinstance(outcome, StaleClaim):
                entry.answer.set_exception(outcome)
            else:
                entry.answer.set_result(outcome)

    async def _persist(self, batch: list[_Entry[Written, Answer]]) -> Sequence[Answer | StaleClaim]:
        items = [(entry.work, entry.written) for entry in batch]
        begun = time.monotonic()
        for delay in self._delays:
            try:
                return await self._write_together(items)
            except Exception as error:
                if not self._is_transient(error) or time.monotonic() - begun > PATIENCE_SECONDS:
                    raise
                log.warning(
                    "database unreachable, outcomes kept in memory",
                    nodes=[work.claim.node_id for work, _ in items],
                    retry_in=delay,
                    error=type(error).__name__,
                )
            await asyncio.sleep(delay)
        return await self._write_together(items)
