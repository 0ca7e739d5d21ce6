"""DBOS Transact: a movement is a workflow, each of a node's two calls a step; workflows are started directly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.peers.workload import CALLS, IN_FLIGHT, Provider, main, measured, open_loop

provider = Provider()


@DBOS.step()
async def submit(movement: int, place: int) -> str:
    await provider.call(movement, place)
    return f"{movement}:{place}"


@DBOS.step()
async def observe(movement: int, place: int) -> str:
    await provider.call(movement, place)
    return "completed"


@DBOS.workflow()
async def move(movement: int) -> str:
    for place in range(0, CALLS, 2):
        await submit(movement, place)
        await observe(movement, place + 1)
    return "completed"


@contextmanager
def launched(url: str) -> Iterator[None]:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
        "application_version": "bench",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy()


async def start(movement: int) -> None:
    with SetWorkflowID(f"movement-{movement}"):
        handle = await DBOS.start_workflow_async(move, movement)
    await handle.get_result()


async def throughput(url: str, movements: int) -> dict[str, float]:
    with launched(url):
        todo = iter(range(movements))

        async def in_flight() -> None:
            for movement in todo:
                await start(movement)

        cpu, begun = time.process_time(), time.monotonic()
        await asyncio.gather(*(in_flight() for _ in range(IN_FLIGHT)))
        figures = measured(movements, begun, cpu)
        provider.check(movements)
    return figures


async def latency(url: str, rate: float, seconds: float) -> dict[str, float]:
    with launched(url):
        return await open_loop(provider, start, rate, seconds)


if __name__ == "__main__":
    main(throughput, latency)
