"""pgqueuer over asyncpg: a movement is a chain of six jobs, each of which calls once and enqueues the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.workload import CALLS, IN_FLIGHT, Provider, main, measured, open_loop

BATCH = 16


@asynccontextmanager
async def working(url: str, preloaded: int = 0) -> AsyncIterator[tuple[Provider, Queries, float, float]]:
    """A worker that runs for the time of the block, and when its clock and its CPU clock started."""
    provider = Provider()
    async with asyncpg.create_pool(url, min_size=4, max_size=10) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        queuer = PgQueuer(driver)

        @queuer.entrypoint("call")
        async def call(job: Job) -> None:
            movement, place = map(int, (job.payload or b"").split(b":"))
            await provider.call(movement, place)
            if place + 1 < CALLS:
                await queries.enqueue("call", f"{movement}:{place + 1}".encode())

        if preloaded:
            await queries.enqueue(["call"] * preloaded, [f"{n}:0".encode() for n in range(preloaded)], [0] * preloaded)
        cpu, begun = time.process_time(), time.monotonic()
        running = asyncio.create_task(queuer.run(batch_size=BATCH, max_concurrent_tasks=IN_FLIGHT))
        try:
            yield provider, queries, begun, cpu
        finally:
            queuer.shutdown.set()
            await running


async def throughput(url: str, movements: int) -> dict[str, float]:
    async with working(url, movements) as (provider, _, begun, cpu):
        await provider.until_finished(movements)
        figures = measured(movements, begun, cpu)
        provider.check(movements)
    return figures


async def latency(url: str, rate: float, seconds: float) -> dict[str, float]:
    async with working(url) as (provider, queries, _, _):

        async def enqueue(movement: int) -> None:
            await queries.enqueue("call", f"{movement}:0".encode())

        await asyncio.sleep(1)
        return await open_loop(provider, enqueue, rate, seconds)


if __name__ == "__main__":
    main(throughput, latency)
