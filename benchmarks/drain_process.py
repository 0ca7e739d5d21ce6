"""One warm drain over the instant provider, as a process of its own: `python -m benchmarks.drain_process KIND URL`."""

from __future__ import annotations

import asyncio
import signal
import sys

import structlog

from benchmarks.instant import open_engine
from qtg_dagster.engine.drain import Drain, DrainKind


async def main(kind: str, url: str, latency_seconds: float) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    async with open_engine(url, latency_seconds=latency_seconds) as engine:
        drain = Drain(engine, DrainKind(kind))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, drain.stop, "terminated")
        await drain.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0.0))
