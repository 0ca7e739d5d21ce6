"""(c) 5,000 SUBMITTED nodes, all due: `python -m benchmarks.observing [--nodes N] [--url URL]`.

One observe drain on a pool of ten connections; the provider takes 50 ms to answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import structlog
from sqlalchemy import text

from benchmarks.fill import copies_of
from benchmarks.instant import InstantExecutor, chain_of, open_engine
from benchmarks.server import fresh_database, server
from benchmarks.throughput import until_all_ended
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template

PROVIDER_SECONDS = 0.05
POOL = 10


async def one_submitted(engine: Engine) -> str:
    """The id of a movement whose only node is SUBMITTED."""
    await publish_template(engine, chain_of(1))
    receipt = await create_movement(engine, MovementOrder(template_key="bench_chain_1", requested_by="bench"))
    await approve_movement(engine, receipt.request_id, actor="bench approver")
    drain = Drain(engine, DrainKind.DISPATCH)
    task = asyncio.create_task(drain.run())
    while True:
        async with engine.database.transaction() as transaction:
            found = await transaction.execute(text("SELECT node_state FROM qtg.movement_request_nodes"))
            if found.scalar_one() == "SUBMITTED":
                break
        await asyncio.sleep(0.02)
    drain.stop("submitted")
    await task
    return receipt.request_id


async def run(url: str, nodes: int, in_flight: int) -> dict[str, float]:
    """Seconds until all are observed."""
    provider = InstantExecutor(PROVIDER_SECONDS)
    async with open_engine(url, executor=provider, pool_size=POOL, drain_concurrency=in_flight) as engine:
        model = await one_submitted(engine)
        await asyncio.to_thread(copies_of, url, model, nodes - 1)
        drain = Drain(engine, DrainKind.OBSERVE)
        begun = time.monotonic()
        task = asyncio.create_task(drain.run())
        await until_all_ended(engine)
        elapsed = time.monotonic() - begun
        drain.stop("measured")
        await task
    if provider.observed != nodes:
        raise AssertionError(f"{provider.observed} looks at {nodes} nodes")
    return {"seconds": elapsed, "per_second": nodes / elapsed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with server(given.url) as url, fresh_database(url, "bench_observing") as own:
        print(json.dumps(asyncio.run(run(own, given.nodes, given.in_flight))))


if __name__ == "__main__":
    main()
