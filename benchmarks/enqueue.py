"""(b) Enqueue to first provider call at low load: `python -m benchmarks.enqueue [--seconds S] [--url URL]`.

An open loop approves 20 movements a second, which were created before; drains and loop share one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time

import structlog

from benchmarks.instant import InstantExecutor, chain_of, open_engine
from benchmarks.server import fresh_database, server
from benchmarks.throughput import LATENCY_SECONDS, NODES, until_all_ended
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from qtg_dagster.store.slots import slot_state

RATE = 20.0
WARM_UP = 10


async def run(url: str, seconds: float) -> dict[str, float]:
    """Milliseconds from calling `approve_movement` to the movement's first provider call."""
    provider = InstantExecutor(LATENCY_SECONDS)
    called: dict[str, float] = {}
    async with open_engine(url, executor=provider, drain_concurrency=32) as engine:
        await publish_template(engine, chain_of(NODES))
        order = MovementOrder(template_key=f"bench_chain_{NODES}", requested_by="bench", approval_ttl_seconds=3600)
        many = int(RATE * seconds) + WARM_UP
        requests = [(await create_movement(engine, order)).request_id for _ in range(many)]
        drains = [Drain(engine, kind) for kind in (DrainKind.DISPATCH, DrainKind.OBSERVE)]
        tasks = [asyncio.create_task(drain.run()) for drain in drains]
        for drain in drains:
            while not (await slot_state(engine.database, drain.report.kind, engine.settings.network_class)).held:
                await asyncio.sleep(0.05)
        approvals = []
        begun = time.monotonic()
        for place, request_id in enumerate(requests):
            await asyncio.sleep(max(0.0, begun + place / RATE - time.monotonic()))
            called[request_id] = time.monotonic()
            approvals.append(asyncio.create_task(approve_movement(engine, request_id, actor="bench approver")))
        await asyncio.gather(*approvals)
        await until_all_ended(engine)
        for drain in drains:
            drain.stop("measured")
        await asyncio.gather(*tasks)
    waits = [(provider.first_call[request_id] - called[request_id]) * 1000 for request_id in requests[WARM_UP:]]
    p99 = statistics.quantiles(waits, n=100, method="inclusive")[98]
    return {"p50_ms": statistics.median(waits), "p99_ms": p99, "max_ms": max(waits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with server(given.url) as url, fresh_database(url, "bench_enqueue") as own:
        print(json.dumps(asyncio.run(run(own, given.seconds))))


if __name__ == "__main__":
    main()
