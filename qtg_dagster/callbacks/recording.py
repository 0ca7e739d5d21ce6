"""Getting outcomes of attempts into the outbox: many in one commit, also when the database is away for a moment."""

from __future__ import annotations

import asyncio
from collections import deque

import structlog

from qtg_dagster.domain.callbacks import Outcome
from qtg_dagster.store.callbacks import CallbackOutbox

log = structlog.get_logger("qtg.callbacks")

#: Waits between tries; after the last, what was not written is claimed, and sent, once more.
_WAITS = (0.1, 0.5, 2.0)
#: What shares one commit, at most.
_BATCH = 64


class OutcomeRecorder:
    """What arrives while a commit is under way shares the next one; nothing waits for company."""

    def __init__(self, outbox: CallbackOutbox) -> None:
        self._outbox = outbox
        self._waiting: deque[tuple[int, Outcome, asyncio.Future[bool]]] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def record(self, runner_id: int, outcome: Outcome) -> bool:
        """Durable when this returns; False when somebody else has taken the callback over. Raises the last try's error.

        When a commit's answer was lost, the second try finds the callback settled and says False: that is so, too.
        """
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((runner_id, outcome, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="outcomes of callbacks")
        return await answer

    async def _write_all(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            runner_id = batch[0][0]
            try:
                written = await self._write(runner_id, [outcome for _, outcome, _ in batch])
            except Exception as error:  # noqa: BLE001 - it is raised where the outcomes came from
                for _, _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            else:
                for _, outcome, answer in batch:
                    if not answer.done():
                        answer.set_result(outcome.callback.callback_id in written)

    async def _write(self, runner_id: int, outcomes: list[Outcome]) -> frozenset[int]:
        from qtg_dagster.store.sessions import DATABASE_ERRORS

        for wait in _WAITS:
            try:
                return await self._outbox.settle(runner_id, outcomes)
            except DATABASE_ERRORS as error:
                log.warning("outcomes of callbacks not written yet", many=len(outcomes), error=str(error))
                await asyncio.sleep(wait)
        return await self._outbox.settle(runner_id, outcomes)
