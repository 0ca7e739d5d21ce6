"""`python -m benchmarks.kill SYSTEM [--seed N] [--kills N] [--python P] [--url URL]`: money moved twice, or not.

200 movements of three steps, 16 in flight; the worker gets SIGKILL at random counts of moves and is started again at
once. Judged by the provider's own book, which is kept in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
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

_LIMIT_SECONDS = 300.0


@dataclass
class Run:
    """One system under one seed's kills."""

    command: list[str]
    kill_at: list[int]
    worker: asyncio.subprocess.Process | None = None
    killed: list[float] = field(default_factory=list)
    first_moves: list[float] = field(default_factory=list)
    started: float = 0.0
    waits_for_move: bool = False

    def moved(self, count: int) -> None:
        now = time.monotonic()
        if self.waits_for_move:
            self.waits_for_move = False
            self.first_moves.append(now - self.started)
        if self.kill_at and count >= self.kill_at[0] and self.worker is not None and self.worker.returncode is None:
            self.kill_at.pop(0)
            self.killed.append(now)
            self.worker.kill()

    async def work(self) -> None:
        """Start the worker again until it ends by itself, with nothing left to do."""
        while True:
            self.started = time.monotonic()
            self.waits_for_move = bool(self.killed)
            self.worker = await asyncio.create_subprocess_exec(*self.command)
            if await self.worker.wait() == 0:
                return
            if self.worker.returncode != -9:
                raise RuntimeError(f"the worker ended with {self.worker.returncode}")


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


async def run(url: str, system: str, python: str, seed: int, kills: int) -> dict[str, float]:
    steps = MOVEMENTS * STEPS
    numbers = random.Random(seed)  # noqa: S311 - it places kills
    module = [python, "-m", f"benchmarks.kill.{system}_worker"]
    desk = [python, "-m", "benchmarks.kill.qtg_operator"] if system == "qtg" else module
    with tempfile.TemporaryDirectory(prefix="qtg-kill-") as folder:
        socket = f"{folder}/provider"
        one = Run([*module, "work", url, socket], sorted(numbers.sample(range(20, steps - 20), kills)))
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
    parser.add_argument("--python", default=sys.executable, help="the interpreter that the worker runs in")
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    with server(given.url) as url, fresh_database(url, "bench_kill", migrated=given.system == "qtg") as own:
        print(json.dumps(asyncio.run(run(own, given.system, given.python, given.seed, given.kills))))


if __name__ == "__main__":
    main()
