"""Warm drains over the instant provider, as a process: `python -m benchmarks.drain_process KIND[,KIND] URL [...]`.

Further arguments: the provider's latency in seconds, nodes in flight, the budget after which a drain is succeeded, and
the slot.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import structlog

from benchmarks.instant import open_engine
from qtg_dagster.engine.drain import Drain, DrainKind


async def main(
    kinds: str,
    url: str,
    latency_seconds: float = 0.0,
    in_flight: float = 64,
    budget_seconds: float = 3600,
    slot: float = 0,
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    given = {"drain_concurrency": int(in_flight), "drain_budget_seconds": budget_seconds}
    async with open_engine(url, latency_seconds=latency_seconds, **given) as engine:
        drains = [Drain(engine, DrainKind(kind), slot=int(slot)) for kind in kinds.split(",")]
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _stop, drains)
        await asyncio.gather(*(drain.run() for drain in drains))


def _stop(drains: list[Drain]) -> None:
    for drain in drains:
        drain.stop("terminated")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])))
