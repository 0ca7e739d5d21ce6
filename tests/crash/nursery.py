"""Hatches workers: a warm process that has imported everything forks one in a few milliseconds.

`python -m tests.crash.nursery` speaks JSON lines; `Nursery` is its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
from typing import Any

from tests.crash.spec import WorkerSpec

_PR_SET_PDEATHSIG = 1


class Worker:
    """A hatched worker as the harness sees it."""

    def __init__(self, pid: int, hatched_at: float) -> None:
        self.pid = pid
        self.hatched_at = hatched_at
        self.exited = asyncio.Event()
        self.stopped = asyncio.Event()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; one that is gone already is left alone."""
        if not self.exited.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await asyncio.wait_for(self.exited.wait(), 30)


class Nursery:
    """The warm process; use as an async context manager."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._workers: dict[int, Worker] = {}
        self._hatching: asyncio.Queue[Worker] = asyncio.Queue()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Nursery:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        ready = await asyncio.wait_for(self._process.stdout.readline(), 120)
        assert ready, "the nursery did not start"
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        if self._reading is not None:
            self._reading.cancel()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def hatch(self, spec: WorkerSpec) -> Worker:
        """A new worker, already running."""
        assert self._process is not None
        assert self._process.stdin is not None
        async with self._lock:
            hatched_at = time.time()
            self._process.stdin.write(json.dumps(spec.document()).encode() + b"\n")
            worker = await asyncio.wait_for(self._hatching.get(), 30)
            worker.hatched_at = hatched_at
        return worker

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            pid = said["pid"]
            match said["event"]:
                case "hatched":
                    self._workers[pid] = Worker(pid, time.time())
                    self._hatching.put_nowait(self._workers[pid])
                case "stopped":
                    self._workers[pid].stopped.set()
                case "continued":
                    self._workers[pid].stopped.clear()
                case "exited":
                    self._workers.pop(pid).exited.set()


def _say(**words: Any) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            _say(event="stopped", pid=pid)
        elif os.WIFCONTINUED(status):
            _say(event="continued", pid=pid)
        else:
            _say(event="exited", pid=pid)


def _hatch(spec: WorkerSpec) -> None:
    pid = os.fork()
    if pid:
        _say(event="hatched", pid=pid)
        return
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        from tests.crash.worker import main as work

        work(spec)
        code = 0
    except BaseException as error:  # noqa: BLE001 - nothing may come back into the nursery
        os.write(2, f"worker ended: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _preload() -> None:
    import ccxt.async_support
    import eth_account
    import sqlalchemy.dialects.postgresql.psycopg
    import web3

    import tests.crash.worker

    del ccxt, eth_account, sqlalchemy, web3, tests
    gc.collect()
    gc.freeze()


def main() -> None:
    """Fork on demand until the harness is gone."""
    _preload()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _say(event="ready", pid=os.getpid())
    rest = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 4096)
        _reap()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _hatch(WorkerSpec.read(json.loads(line)))


if __name__ == "__main__":
    main()
