"""What ends a drain from outside: termination, its run's end, its parent's death.

A run's status is no proof of ownership, that is the lock's; but a drain that nobody can see or stop must not go on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import dagster as dg
import structlog

log = structlog.get_logger("qtg.drain")

_PARENT_SECONDS = 1.0
#: Looks at the parent between two looks at the run's status.
_STATUS_EVERY = 10
_GOING_ON = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class RunFence:
    """Calls `stop(reason)` in the running event loop at most a few times; use as a context manager around the drain.

    Looks from a thread of its own, so that an event log that fails or hangs never disturbs the drain.
    """

    def __init__(self, instance: dg.DagsterInstance, run_id: str, stop: Callable[[str], None]) -> None:
        self._instance = instance
        self._run_id = run_id
        self._stop = stop
        self._ended = threading.Event()
        self._parent = os.getppid()
        self._handlers: dict[signal.Signals, Any] = {}
        self._loop = asyncio.get_running_loop()
        self.interrupted = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._handlers[number] = signal.getsignal(number)
                self._loop.add_signal_handler(number, self._interrupt, "terminated")
        threading.Thread(target=self._look, name="run fence", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for number, handler in self._handlers.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def _interrupt(self, reason: str) -> None:
        self.interrupted = True
        self._stop(reason)

    def _look(self) -> None:
        looks = 0
        while not self._ended.wait(_PARENT_SECONDS):
            looks += 1
            if os.getppid() != self._parent:
                self._say(self._stop, "its parent process is gone")
            elif looks % _STATUS_EVERY == 0:
                self._look_at_status()

    def _look_at_status(self) -> None:
        try:
            run = self._instance.get_run_by_id(self._run_id)
        except Exception:  # whatever the event log's trouble is, the drain is not touched by it
            log.warning("run status not read", run=self._run_id, exc_info=True)
            return
        if run is None or run.status not in _GOING_ON:
            self._say(self._interrupt, f"its run is {run.status.value if run else 'deleted'}")

    def _say(self, action: Callable[[str], None], reason: str) -> None:
        if not self._ended.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, reason)
