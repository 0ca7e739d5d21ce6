"""(a) Nodes a second: movements of three nodes in a row, 5 ms a provider call, 32 in flight, one process.

`python -m benchmarks.throughput [--movements N] [--url URL] [--profile]`. A node is one submit and one observe. The
movements are created and approved before the clock starts.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext

import structlog
from sqlalchemy import text

from benchmarks.instant import InstantExecutor, chain_of, open_engine
from benchmarks.server import fresh_database, server
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template

LATENCY_SECONDS = 0.005
IN_FLIGHT = 32
NODES = 3


async def preload(engine: Engine, movements: int) -> None:
    """Create and approve the movements."""
    await publish_template(engine, chain_of(NODES))
    order = MovementOrder(template_key=f"bench_chain_{NODES}", requested_by="bench")
    todo = iter(range(movements))

    async def one_by_one() -> None:
        for _ in todo:
            receipt = await create_movement(engine, order)
            await approve_movement(engine, receipt.request_id, actor="bench approver")

    await asyncio.gather(*(one_by_one() for _ in range(8)))


async def until_all_ended(engine: Engine) -> None:
    """Return when no movement is open."""
    while True:
        async with engine.database.transaction() as transaction:
            found = await transaction.execute(
                text("SELECT count(*) FROM qtg.movement_requests WHERE finished_at IS NULL")
            )
            if found.scalar_one() == 0:
                return
        await asyncio.sleep(0.05)


async def run(
    url: str,
    movements: int,
    profile: cProfile.Profile | None = None,
    beside: Callable[[Drain], AbstractContextManager[object]] = nullcontext,
) -> dict[str, float]:
    """One run; raises when the provider was called twice for a node, or not at all.

    `beside` is entered for each drain, for the time that it works.
    """
    provider = InstantExecutor(LATENCY_SECONDS)
    async with open_engine(url, executor=provider, drain_concurrency=IN_FLIGHT) as engine:
        await preload(engine, movements)
        drains = [Drain(engine, kind) for kind in (DrainKind.DISPATCH, DrainKind.OBSERVE)]
        cpu, begun = time.process_time(), time.monotonic()
        if profile is not None:
            profile.enable()
        with ExitStack() as stack:
            for drain in drains:
                stack.enter_context(beside(drain))
            tasks = [asyncio.create_task(drain.run()) for drain in drains]
            await until_all_ended(engine)
            elapsed, cpu = time.monotonic() - begun, time.process_time() - cpu
        if profile is not None:
            profile.disable()
        for drain in drains:
            drain.stop("measured")
        await asyncio.gather(*tasks)
    nodes = movements * NODES
    doubled = sum(1 for calls in provider.submitted.values() if calls > 1)
    if doubled or len(provider.submitted) != nodes:
        raise AssertionError(f"{doubled} nodes submitted twice, {nodes - len(provider.submitted)} never")
    return {"per_second": nodes / elapsed, "client_cpu_ms": cpu * 1000 / nodes, "observes": provider.observed / nodes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--movements", type=int, default=1000)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    parser.add_argument("--profile", action="store_true", help="print where this process spends its time")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    profile = cProfile.Profile() if given.profile else None
    with server(given.url) as url, fresh_database(url, "bench_throughput") as own:
        print(json.dumps(asyncio.run(run(own, given.movements, profile))))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
