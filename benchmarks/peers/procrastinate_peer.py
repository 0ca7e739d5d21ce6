"""procrastinate over psycopg: a movement is a chain of six jobs, each of which calls once and defers the next."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.peers.workload import CALLS, IN_FLIGHT, Provider, main, measured, open_loop


@asynccontextmanager
async def working(url: str, preloaded: int = 0) -> AsyncIterator[tuple[Provider, Any, float, float]]:
    """A worker that runs for the time of the block, and when its clock and its CPU clock started."""
    provider = Provider()
    app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=10))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        @app.task(name="call")
        async def call(movement: int, place: int) -> None:
            await provider.call(movement, place)
            if place + 1 < CALLS:
                await call.defer_async(movement=movement, place=place + 1)

        for movement in range(preloaded):
            await call.defer_async(movement=movement, place=0)
        cpu, begun = time.process_time(), time.monotonic()
        worker = app.run_worker_async(concurrency=IN_FLIGHT, wait=True, install_signal_handlers=False)
        running = asyncio.create_task(worker)
        try:
            yield provider, call, begun, cpu
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def throughput(url: str, movements: int) -> dict[str, float]:
    async with working(url, movements) as (provider, _, begun, cpu):
        await provider.until_finished(movements)
        figures = measured(movements, begun, cpu)
        provider.check(movements)
    return figures


async def latency(url: str, rate: float, seconds: float) -> dict[str, float]:
    async with working(url) as (provider, call, _, _):

        async def enqueue(movement: int) -> None:
            await call.defer_async(movement=movement, place=0)

        await asyncio.sleep(1)
        return await open_loop(provider, enqueue, rate, seconds)


if __name__ == "__main__":
    main(throughput, latency)
