"""pgqueuer as documented: a movement is a chain of three jobs; a dead worker's jobs come back after 5 s."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.kill.wire import IN_FLIGHT, MOVEMENTS, STEPS, ask


async def work(driver: AsyncpgPoolDriver, queries: Queries, socket: str) -> None:
    queuer = PgQueuer(driver)

    @queuer.entrypoint("move")
    async def move(job: Job) -> None:
        unit = (job.payload or b"").decode()
        await ask(socket, "move", unit, unit)
        number, place = unit.split(":")
        if int(place) + 1 < STEPS:
            await queries.enqueue("move", f"{number}:{int(place) + 1}".encode())

    running = asyncio.create_task(
        queuer.run(
            dequeue_timeout=timedelta(seconds=1),
            batch_size=8,
            max_concurrent_tasks=IN_FLIGHT,
            heartbeat_timeout=timedelta(seconds=5),
        )
    )
    while (await driver.fetch("SELECT count(*) AS left FROM pgqueuer"))[0]["left"]:
        await asyncio.sleep(0.1)
    queuer.shutdown.set()
    await running


async def main(verb: str, url: str, socket: str) -> None:
    async with asyncpg.create_pool(url, min_size=2, max_size=10) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        if verb == "set-up":
            await queries.install()
            names = ["move"] * MOVEMENTS
            await queries.enqueue(names, [f"{n}:0".encode() for n in range(MOVEMENTS)], [0] * MOVEMENTS)
        else:
            await work(driver, queries, socket)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
