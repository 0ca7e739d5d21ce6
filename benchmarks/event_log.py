"""(i) A hanging Dagster event log beside the money path: `python -m benchmarks.event_log [--hang] [--url URL]`.

The work of `benchmarks.throughput` inside the fence that a drain's run works in. With `--hang` every look at the run's
status, one a second here, hangs for good.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from contextlib import AbstractContextManager
from typing import Any, cast

import dagster as dg
import structlog

from benchmarks.server import fresh_database, server
from benchmarks.throughput import run
from qtg_dagster.engine.drain import Drain
from qtg_dagster.jobs import fence


class _EventLog:
    """As much of an instance as the fence uses."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    def get_run_by_id(self, run_id: str) -> Any:
        if self._hangs:
            threading.Event().wait()
        return type("Run", (), {"status": dg.DagsterRunStatus.STARTED})()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--movements", type=int, default=1000)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    fence._STATUS_EVERY = 1  # type: ignore[misc]  # noqa: SLF001
    instance = cast("dg.DagsterInstance", _EventLog(hangs=given.hang))

    def fenced(drain: Drain) -> AbstractContextManager[object]:
        return fence.RunFence(instance, "bench", drain.stop)

    with server(given.url) as url, fresh_database(url, "bench_event_log") as own:
        print(json.dumps(asyncio.run(run(own, given.movements, beside=fenced))))


if __name__ == "__main__":
    main()
