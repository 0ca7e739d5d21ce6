"""(d) The same work on tables that have grown: `python -m benchmarks.growth [--sizes N,N,...] [--url URL]`.

Nodes a second, as in `benchmarks.throughput`, with that many finished nodes in the tables.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys

import psycopg
import structlog

from benchmarks.fill import copies_of
from benchmarks.server import fresh_database, server
from benchmarks.throughput import NODES, run


def measure(url: str, sizes: list[int], movements: int, repeats: int) -> dict[str, float]:
    """Median nodes a second at each size."""
    asyncio.run(run(url, 1))
    figures: dict[str, float] = {}
    for size in sizes:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT min(id::text), count(*) FROM qtg.movement_requests").fetchone()
        assert row is not None
        copies_of(url, str(row[0]), max(0, size // NODES - int(str(row[1]))))
        print(f"{size} finished nodes stand", file=sys.stderr)
        figures[str(size)] = statistics.median(asyncio.run(run(url, movements))["per_second"] for _ in range(repeats))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--movements", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with server(given.url) as url, fresh_database(url, "bench_growth") as own:
        sizes = [int(size) for size in given.sizes.split(",")]
        print(json.dumps(measure(own, sizes, given.movements, given.repeats)))


if __name__ == "__main__":
    main()
