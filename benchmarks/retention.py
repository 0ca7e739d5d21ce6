"""(r) Deletion beside live dispatch: `python -m benchmarks.retention [--trees N] [--url URL]`.

Tables are filled with so many settled movements past their window, with their callbacks and audit entries. Then the
same live work is done again and again, by turns without and with a pass of deletion in a process of its own: nodes a
second, and the wait from approval to first provider call at low load. At last the pass runs alone without pauses, and
once with nothing to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import structlog

from benchmarks.enqueue import run as enqueue
from benchmarks.fill import as_superuser, copies_of
from benchmarks.server import fresh_database, server
from benchmarks.throughput import run as throughput
from qtg_dagster.domain.retention import KindReport
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.retention import open_places, retain

_AGE = """
    UPDATE qtg.movement_requests SET finished_at = now() - interval '40 days', created_at = now() - interval '41 days';
    DELETE FROM qtg.audit_outbox;
"""
_MORE = """
    INSERT INTO qtg.movement_callback_outbox
        (request_id, event_type, callback_url, status, delivered_at, network_class, sequence, receiver, body)
    SELECT id, 'request_state_changed', 'https://example.com', 'delivered', now() - interval '40 days', network_class,
           s, 'example.com', '{}' FROM qtg.movement_requests, generate_series(1, 3) AS s;
    INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, promoted_at)
    SELECT network_class, 'bench', action, 'movement_request', id::text, now() - interval '40 days'
    FROM qtg.movement_requests, unnest('{create,approve}'::text[]) AS action;
    INSERT INTO qtg.audit_events
        (network_class, sequence, outbox_id, actor, action, subject_type, subject_id, previous_hash, row_hash)
    SELECT network_class, id, id, actor, action, subject_type, subject_id, repeat('0', 64), repeat('0', 64)
    FROM qtg.audit_outbox;
"""
_SIZE = """
    SELECT (SELECT count(*) FROM qtg.movement_requests) + (SELECT count(*) FROM qtg.movement_request_nodes)
         + (SELECT count(*) FROM qtg.movement_node_attempts) + (SELECT count(*) FROM qtg.movement_node_steps)
         + (SELECT count(*) FROM qtg.movement_callback_outbox) + (SELECT count(*) FROM qtg.audit_outbox)
"""
_LEFT = "SELECT count(*) FROM qtg.movement_requests WHERE finished_at < now() - interval '30 days'"
_DEAD = """
    SELECT coalesce(max(n_dead_tup::float8 / greatest(n_live_tup + n_dead_tup, 1)), 0) FROM pg_stat_user_tables
    WHERE schemaname = 'qtg' AND n_live_tup + n_dead_tup > 10000
"""


def number(url: str, question: str) -> float:
    """The one figure that a question asks for."""
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return float(row[0])


def fill(url: str, trees: int) -> None:
    """So many settled movements past their window."""
    asyncio.run(throughput(url, 1))
    with as_superuser(url) as connection:
        connection.execute(_AGE)
        row = connection.execute("SELECT id::text FROM qtg.movement_requests").fetchone()
    assert row is not None
    copies_of(url, str(row[0]), trees - 1)
    with as_superuser(url) as connection:
        connection.execute(_MORE)
        connection.execute("VACUUM ANALYZE")


async def one_pass(url: str, load: float, seconds: float, days: int = 30) -> list[KindReport]:
    settings = Settings(database_url=url, retention_load=load, retention_budget_seconds=seconds, retention_days=days)
    database = Database(url, pool_size=2)
    try:
        async with open_places(settings, database, None, lambda _: None) as places:
            return await retain(settings, places)
    finally:
        await database.close()


@contextmanager
def deletion(url: str, *, runs: bool) -> Iterator[None]:
    """A pass in a process of its own for the time of the block, or nothing."""
    if not runs:
        yield
        return
    before = number(url, _LEFT)
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.retention", "--pass-on", url])
    try:
        while number(url, _LEFT) == before:
            time.sleep(0.05)
        yield
        if process.poll() is not None or not number(url, _LEFT):
            raise AssertionError("the pass ended before the live work did: fill in more")
    finally:
        process.terminate()
        process.wait(timeout=30)


def measure(url: str, movements: int, seconds: float, repeats: int) -> dict[str, float]:
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for turn in range(repeats):
        for runs in (False, True) if turn % 2 == 0 else (True, False):
            with deletion(url, runs=runs):
                began, left = time.monotonic(), number(url, _LEFT)
                rate = asyncio.run(throughput(url, movements))["per_second"]
                waits = asyncio.run(enqueue(url, seconds))
                gone = (left - number(url, _LEFT)) / (time.monotonic() - began)
            found[runs].append({"per_second": rate, "trees_per_second": gone, **waits})
            print(f"{'with' if runs else 'without'} deletion: {found[runs][-1]}", file=sys.stderr)
    without, beside = (
        {name: statistics.median(run[name] for run in runs) for name in runs[0]} for runs in found.values()
    )
    return {
        "without": without["per_second"],
        "beside": beside["per_second"],
        "slower": without["per_second"] / beside["per_second"],
        "p99_without_ms": without["p99_ms"],
        "p99_beside_ms": beside["p99_ms"],
        "trees_deleted_per_second_beside": beside["trees_per_second"],
        "p99_slower": beside["p99_ms"] / without["p99_ms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=100_000)
    parser.add_argument("--movements", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    parser.add_argument("--pass-on", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    if given.pass_on:
        asyncio.run(one_pass(given.pass_on, Settings(database_url=given.pass_on).retention_load, 3000))
        return
    with server(given.url) as url, fresh_database(url, "bench_retention") as own:
        fill(own, given.trees)
        rows = number(own, _SIZE)
        print(f"{rows:.0f} settled rows stand", file=sys.stderr)
        figures = {"rows": rows, **measure(own, given.movements, given.seconds, given.repeats)}
        figures |= alone(own)
        print(json.dumps(figures))


def alone(url: str) -> dict[str, float]:
    """Rows a second without pauses and without live work, what it leaves to vacuum, and a pass with nothing to do."""
    reports = asyncio.run(one_pass(url, 1.0, 30))
    deleted = sum(sum(each.rows.values()) or each.deleted for each in reports)
    dead = number(url, _DEAD)
    began = time.monotonic()
    asyncio.run(one_pass(url, 1.0, 30, days=3650))
    return {
        "rows_per_second_alone": deleted / sum(each.seconds for each in reports),
        "dead_share": dead,
        "nothing_to_do_ms": (time.monotonic() - began) * 1000,
    }


if __name__ == "__main__":
    main()
