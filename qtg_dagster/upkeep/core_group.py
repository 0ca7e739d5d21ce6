"""Core workers look after one another: who dies is recorded, and the group ends and starts again together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import structlog

from qtg_dagster.domain.core_group import CoreGroup, CorePolicy, must_end
from qtg_dagster.engine.drain import WORKER_NAMES
from qtg_dagster.settings import Settings
from qtg_dagster.store.core_group import FailedRun, notice_deaths, words_since
from qtg_dagster.store.database import Database
from qtg_dagster.store.sessions import DATABASE_ERRORS

log = structlog.get_logger("qtg.core")

_LOOK_SECONDS = 1.0
#: Beyond the grace of a drain that ends: what it takes to see that the last of a generation is gone.
_SETTLE_SECONDS = 10.0


def core_policy(settings: Settings) -> CorePolicy:
    """The settings' rule for deaths of core workers."""
    return CorePolicy(
        settings.core_deaths_before_halt,
        settings.core_death_window_seconds,
        settings.drain_stop_grace_seconds + _SETTLE_SECONDS,
        settings.core_fail_fast_enabled,
    )


async def look_after_core(
    database: Database, settings: Settings, *, noticed_by: str, failed_runs: Sequence[FailedRun] = ()
) -> CoreGroup:
    """Record deaths that nobody has recorded yet, and say how the group stands."""
    workers = {kind.value: name for kind, name in WORKER_NAMES.items()}
    return await notice_deaths(
        database,
        settings.network_class,
        core_policy(settings),
        workers,
        noticed_by=noticed_by,
        failed_runs=failed_runs,
    )


class CoreWatch:
    """Beside a core worker: notices the deaths of others, and calls `stop(reason)` when the group falls.

    The first look is done when the block is entered, so that nothing is started while the group stands still. A
    database that does not answer ends nobody: that is for the worker itself to find out.
    """

    def __init__(self, database: Database, settings: Settings, worker: str, stop: Callable[[str], None]) -> None:
        self._database = database
        self._settings = settings
        self._worker = worker
        self._stop = stop
        self._seen = 0
        self._begun = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._look()
        self._task = asyncio.create_task(self._watch(), name=f"core watch of {self._worker}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        try:
            group = await look_after_core(self._database, self._settings, noticed_by=self._worker)
            newest = group.last.id if group.last is not None else 0
            if not self._begun:
                self._begun, self._seen = True, newest
                if not group.runs:
                    self._stop(group.explain())
                return
            if newest <= self._seen:
                return
            words = await words_since(self._database, self._settings.network_class, self._seen)
            self._seen = newest
        except DATABASE_ERRORS:
            log.warning("core group not looked at", worker=self._worker, exc_info=True)
            return
        ending = next((word for word in words if must_end(word, self._worker)), None)
        if ending is not None and self._settings.core_fail_fast_enabled:
            log.warning("core group fell", worker=self._worker, reason=ending.reason)
            self._stop(f"core group halted: {ending.reason}")
