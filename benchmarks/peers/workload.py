"""The provider that every peer calls, and the command line of a peer's process."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable

LATENCY_SECONDS = 0.005
IN_FLIGHT = 32
#: Provider calls of one movement: three nodes, each one submit and one observe.
CALLS = 6


class Provider:
    """Counts and times its calls, 5 ms each; each movement is named by a number from 0."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[int, int]] = Counter()
        self.first_call: dict[int, float] = {}
        self.finished = 0

    async def call(self, movement: int, place: int) -> None:
        self.first_call.setdefault(movement, time.monotonic())
        self.calls[movement, place] += 1
        await asyncio.sleep(LATENCY_SECONDS)
        if place == CALLS - 1:
            self.finished += 1

    async def until_finished(self, movements: int) -> None:
        while self.finished < movements:
            await asyncio.sleep(0.01)

    def check(self, movements: int) -> None:
        if len(self.calls) != movements * CALLS or max(self.calls.values()) != 1:
            raise AssertionError(f"{sum(self.calls.values())} calls for {movements * CALLS} that were due")


async def open_loop(
    provider: Provider, enqueue: Callable[[int], Awaitable[None]], rate: float, seconds: float, first: int = 0
) -> dict[str, float]:
    """Enqueue at that rate whatever the answer; milliseconds from the enqueue call to the first provider call."""
    begun, called, tasks = time.monotonic(), {}, []
    many = int(rate * seconds)
    for place in range(many):
        await asyncio.sleep(max(0.0, begun + place / rate - time.monotonic()))
        called[first + place] = time.monotonic()
        tasks.append(asyncio.create_task(_as_coroutine(enqueue(first + place))))
    await asyncio.gather(*tasks)
    await provider.until_finished(first + many)
    waits = [(provider.first_call[number] - at) * 1000 for number, at in called.items()]
    return {
        "p50_ms": statistics.median(waits),
        "p99_ms": statistics.quantiles(waits, n=100, method="inclusive")[98],
        "max_ms": max(waits),
    }


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def measured(movements: int, begun: float, cpu: float) -> dict[str, float]:
    nodes = movements * CALLS / 2
    elapsed = time.monotonic() - begun
    return {"per_second": nodes / elapsed, "client_cpu_ms": (time.process_time() - cpu) * 1000 / nodes}


def main(
    throughput: Callable[[str, int], Awaitable[dict[str, float]]],
    latency: Callable[[str, float, float], Awaitable[dict[str, float]]],
) -> None:
    """Run one case of one peer and print its figures as JSON, on the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=["throughput", "latency"])
    parser.add_argument("url")
    parser.add_argument("--movements", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=15)
    given = parser.parse_args()
    if given.case == "throughput":
        work = throughput(given.url, given.movements)
    else:
        work = latency(given.url, given.rate, given.seconds)
    print(json.dumps(asyncio.run(_finish(work))), flush=True)


async def _finish(work: Awaitable[dict[str, float]]) -> dict[str, float]:
    return await work
