"""`python -m benchmarks.kill SYSTEM [--seed N] [--kills N] [--python P] [--url URL]`: money moved twice, or not.

200 movements of three steps, 16 in flight; the worker gets SIGKILL at random counts of moves and is started again at
once: as a new interpreter, for all alike; with `--forked` as QTG's own runs are, from a process that has imported
already. Judged by the provider's own book, which is kept in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from benchmarks.kill.provider import Book
from benchmarks.kill.wire import MOVEMENTS, STEPS
from benchmarks.server import fresh_database, server
from qtg_dagster.host.bytecode import compile_sources

_LIMIT_SECONDS = 300.0


class Fresh:
    """Workers in interpreters of their own."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._worker: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._worker = await asyncio.create_subprocess_exec(*self._command)

    def kill(self) -> None:
        assert self._worker is not None
        self._worker.kill()

    async def wait(self) -> int:
        """The exit code."""
        assert self._worker is not None
        return await self._worker.wait()


class Forked:
    """Workers out of a hatchery."""

    def __init__(self, hatchery: asyncio.subprocess.Process) -> None:
        assert hatchery.stdin is not None
        assert hatchery.stdout is not None
        self._orders, self._answers, self._pid = hatchery.stdin, hatchery.stdout, 0

    async def start(self) -> None:
        self._orders.write(b"one\n")
        self._pid = int(await self._answers.readline())

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    async def wait(self) -> int:
        """The exit code."""
        return int(await self._answers.readline())


@dataclass
class Run:
    """One system under one seed's kills."""

    workers: Fresh | Forked
    kill_at: list[int]
    alive: bool = False
    killed: list[float] = field(default_factory=list)
    first_moves: list[float] = field(default_factory=list)
    started: float = 0.0
    waits_for_move: bool = False

    def moved(self, count: int) -> None:
        now = time.monotonic()
        if self.waits_for_move:
            self.waits_for_move = False
            self.first_moves.append(now - self.started)
        if self.kill_at and count >= self.kill_at[0] and self.alive:
            self.kill_at.pop(0)
            self.killed.append(now)
            self.alive = False
            self.workers.kill()

    async def work(self) -> None:
        """Start the worker again until it ends by itself, with nothing left to do."""
        while True:
            self.started = time.monotonic()
            self.waits_for_move = bool(self.killed)
            await self.workers.start()
            self.alive = True
            ended = await self.workers.wait()
            if ended == 0:
                return
            if ended != -signal.SIGKILL:
                raise RuntimeError(f"the worker ended with {ended}")


@asynccontextmanager
async def _at_desk(system: str, command: list[str]) -> AsyncIterator[None]:
    """Ours needs a person at times; the person is not killed with the worker."""
    if system != "qtg":
        yield
        return
    operator = await asyncio.create_subprocess_exec(*command)
    try:
        yield
    finally:
        operator.kill()
        await operator.wait()


@asynccontextmanager
async def _workers(command: list[str], *, forked: bool) -> AsyncIterator[Fresh | Forked]:
    if not forked:
        yield Fresh(command)
        return
    pipe = asyncio.subprocess.PIPE
    hatchery = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        yield Forked(hatchery)
    finally:
        hatchery.kill()
        await hatchery.wait()


async def run(url: str, system: str, python: str, seed: int, kills: int, *, forked: bool) -> dict[str, float]:
    steps = MOVEMENTS * STEPS
    numbers = random.Random(seed)  # noqa: S311 - it places kills
    module = [python, "-m", f"benchmarks.kill.{system}_{'hatchery' if forked else 'worker'}"]
    desk = [python, "-m", "benchmarks.kill.qtg_operator"] if system == "qtg" else module
    with tempfile.TemporaryDirectory(prefix="qtg-kill-") as folder:
        socket = f"{folder}/provider"
        kill_at = sorted(numbers.sample(range(20, steps - 20), kills))
        async with _workers([*module, "work", url, socket], forked=forked) as workers:
            one = Run(workers, kill_at)
            book = Book(one.moved)
            async with await asyncio.start_unix_server(book.serve, socket):
                set_up = await asyncio.create_subprocess_exec(*desk, "set-up", url, socket)
                assert await set_up.wait() == 0
                async with asyncio.timeout(_LIMIT_SECONDS), _at_desk(system, [*desk, "operate", url]):
                    await one.work()
                settled = time.monotonic()
    units = book.units()
    return {
        "doubled": sum(1 for moves in units.values() if moves > 1),
        "lost": steps - len(units),
        "kills": len(one.killed),
        "restart_to_move_median_s": statistics.median(one.first_moves),
        "restart_to_move_max_s": max(one.first_moves),
        "settled_after_last_kill_s": settled - one.killed[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=["qtg", "dbos", "pgqueuer"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--forked", action="store_true", help="workers from a process that has imported (qtg only)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that the worker runs in")
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    if given.forked and given.system != "qtg":
        parser.error("--forked is for qtg")
    compile_sources()  # as the peers' packages were when they were installed
    with server(given.url) as url, fresh_database(url, "bench_kill", migrated=given.system == "qtg") as own:
        found = run(own, given.system, given.python, given.seed, given.kills, forked=given.forked)
        print(json.dumps(asyncio.run(found)))


if __name__ == "__main__":
    main()
