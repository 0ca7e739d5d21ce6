"""(g) Two processes, each with a dispatch and an observe drain, against one: `python -m benchmarks.two_processes`.

Each process works up to 32 nodes at once, in a slot of its own. Nodes a second from the first provider call to the last, by the provider's own times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys

from sqlalchemy import text

from benchmarks.instant import open_engine
from benchmarks.server import fresh_database, server
from benchmarks.throughput import IN_FLIGHT, LATENCY_SECONDS, NODES, preload, until_all_ended

_SPAN = text("""
    SELECT max((provider_refs ->> 'completed_at')::float8) - min((provider_refs ->> 'called_at')::float8),
           count(*) FILTER (WHERE node_state = 'COMPLETED')
    FROM qtg.movement_request_nodes
""")


async def run(url: str, movements: int, many: int) -> float:
    """Nodes a second with so many processes."""
    async with open_engine(url) as engine:
        await preload(engine, movements)
        command = [sys.executable, "-m", "benchmarks.drain_process", "dispatch,observe", url]
        given = [str(LATENCY_SECONDS), str(IN_FLIGHT), "3600"]
        processes = [subprocess.Popen([*command, *given, str(slot)]) for slot in range(many)]
        try:
            await until_all_ended(engine)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=30)
        async with engine.database.transaction() as transaction:
            span, completed = (await transaction.execute(_SPAN)).one()
    assert completed == movements * NODES, completed
    return float(completed / span)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--movements", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    one: list[float] = []
    two: list[float] = []
    with server(given.url) as url:
        for _ in range(given.repeats):
            for found, many in ((one, 1), (two, 2)):
                with fresh_database(url, "bench_processes") as own:
                    found.append(asyncio.run(run(own, given.movements, many)))
    print(json.dumps({"one": statistics.median(one), "two": statistics.median(two)}))


if __name__ == "__main__":
    main()
