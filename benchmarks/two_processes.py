"""(g) Two processes, each with a dispatch and an observe drain, against one: `python -m benchmarks.two_processes`.

Each drain works up to 32 nodes at once (`--in-flight`), in a slot of its own. Nodes a second from the first provider
call to the last, by the provider's own times; and the share of the machine's cores that was busy meanwhile, because
what one process leaves of them is all that a second can add.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import text

from benchmarks.instant import open_engine
from benchmarks.server import fresh_database, server
from benchmarks.throughput import IN_FLIGHT, LATENCY_SECONDS, NODES, preload, until_all_ended

_SPAN = text("""
    SELECT max((provider_refs ->> 'completed_at')::float8) - min((provider_refs ->> 'called_at')::float8),
           count(*) FILTER (WHERE node_state = 'COMPLETED')
    FROM qtg.movement_request_nodes
""")


def busy_seconds() -> float:
    """CPU seconds that this machine has spent, on all its cores; 0 where it does not say."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    user, nice, system, _, _, irq, softirq, *_ = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


async def run(url: str, movements: int, many: int, in_flight: int) -> dict[str, float]:
    """Nodes a second with so many processes, and how much of this machine's cores was busy meanwhile."""
    async with open_engine(url) as engine:
        await preload(engine, movements)
        command = [sys.executable, "-m", "benchmarks.drain_process", "dispatch,observe", url]
        given = [str(LATENCY_SECONDS), str(in_flight), "3600"]
        begun, busy = time.monotonic(), busy_seconds()
        processes = [subprocess.Popen([*command, *given, str(slot)]) for slot in range(many)]
        try:
            await until_all_ended(engine)
            busy = (busy_seconds() - busy) / (time.monotonic() - begun) / (os.cpu_count() or 1)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=30)
        async with engine.database.transaction() as transaction:
            span, completed = (await transaction.execute(_SPAN)).one()
    assert completed == movements * NODES, completed
    return {"per_second": float(completed / span), "busy": busy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--movements", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="nodes that each drain works at once")
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    found: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    with server(given.url) as url:
        for _ in range(given.repeats):
            for many, runs in found.items():
                with fresh_database(url, "bench_processes") as own:
                    runs.append(asyncio.run(run(own, given.movements, many, given.in_flight)))
    one, two = ({name: statistics.median(run[name] for run in runs) for name in runs[0]} for runs in found.values())
    figures = {"one": one["per_second"], "two": two["per_second"], "busy_one": one["busy"], "busy_two": two["busy"]}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
