"""(f) The floor: the bare transactions that one node needs, through psycopg, with no code of ours.

`python -m benchmarks.floor [--movements N] [--url URL]`. Per node five single-statement autocommit transactions,
prepared, on pooled connections, never merged: claim; intent with attempt and journal row; outcome SUBMITTED with its
journal row; claim for the look; COMPLETED with journal row, successor made READY and outbox row. Two provider calls of
5 ms lie between them. 32 movements are in flight, and no look-up finds the work: each movement's nodes are known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from benchmarks.server import fresh_database, server

LATENCY_SECONDS = 0.005
IN_FLIGHT = 32
NODES = 3
POOL = 10

SCHEMA = """
    CREATE TABLE node (id bigint PRIMARY KEY, movement bigint NOT NULL, place int NOT NULL, state text NOT NULL,
        runner bigint, epoch bigint NOT NULL DEFAULT 0, refs jsonb NOT NULL DEFAULT '{}', evidence bigint,
        due timestamptz, updated_at timestamptz NOT NULL DEFAULT now(), UNIQUE (movement, place));
    CREATE INDEX ON node (due) WHERE state = 'READY';
    CREATE INDEX ON node (due) WHERE state = 'SUBMITTED';
    CREATE TABLE attempt (node bigint PRIMARY KEY REFERENCES node, key text NOT NULL UNIQUE, payload jsonb NOT NULL,
        outcome text, at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE step (id bigserial PRIMARY KEY, node bigint NOT NULL REFERENCES node, to_state text NOT NULL,
        facts jsonb NOT NULL, epoch bigint NOT NULL, at timestamptz NOT NULL DEFAULT now());
    CREATE INDEX ON step (node, id);
    CREATE TABLE outbox (id bigserial PRIMARY KEY, node bigint NOT NULL, payload jsonb NOT NULL,
        at timestamptz NOT NULL DEFAULT now());
"""
FILL = """
    INSERT INTO node (id, movement, place, state)
    SELECT (m - 1) * %(nodes)s + p, m, p, CASE p WHEN 1 THEN 'READY' ELSE 'BLOCKED' END
    FROM generate_series(1, %(movements)s) m, generate_series(1, %(nodes)s) p
"""
CLAIM = "UPDATE node SET runner = 1, epoch = epoch + 1 WHERE id = %s AND state = %s AND runner IS NULL"
INTENT = """
    WITH moved AS (UPDATE node SET state = 'SUBMITTING', updated_at = now()
                   WHERE id = %(node)s AND state = 'READY' AND runner = 1 RETURNING id, epoch),
    tried AS (INSERT INTO attempt (node, key, payload) SELECT id, %(key)s, %(facts)s::jsonb FROM moved)
    INSERT INTO step (node, to_state, facts, epoch) SELECT id, 'SUBMITTING', %(facts)s::jsonb, epoch FROM moved
"""
SUBMITTED = """
    WITH moved AS (UPDATE node SET state = 'SUBMITTED', refs = %(facts)s::jsonb, runner = NULL, due = now(),
                       updated_at = now()
                   WHERE id = %(node)s AND state = 'SUBMITTING' AND runner = 1 RETURNING id, epoch),
    tried AS (UPDATE attempt SET outcome = 'ACCEPTED' WHERE node = %(node)s)
    INSERT INTO step (node, to_state, facts, epoch) SELECT id, 'SUBMITTED', %(facts)s::jsonb, epoch FROM moved
"""
COMPLETED = """
    WITH moved AS (UPDATE node SET state = 'COMPLETED', runner = NULL, updated_at = now()
                   WHERE id = %(node)s AND state = 'SUBMITTED' AND runner = 1 RETURNING id, movement, place, epoch),
    next AS (UPDATE node SET state = 'READY', due = now() FROM moved
             WHERE node.movement = moved.movement AND node.place = moved.place + 1),
    told AS (INSERT INTO outbox (node, payload) SELECT id, %(facts)s::jsonb FROM moved)
    INSERT INTO step (node, to_state, facts, epoch) SELECT id, 'COMPLETED', %(facts)s::jsonb, epoch FROM moved
"""
FACTS = json.dumps({"status": "ok", "reference": "0123456789abcdef0123456789abcdef", "evidence": {"seen": True}})


class _Pool:
    """Connections in autocommit that prepare at first use."""

    def __init__(self, connections: list[psycopg.AsyncConnection[tuple[object, ...]]]) -> None:
        self._free: asyncio.Queue[psycopg.AsyncConnection[tuple[object, ...]]] = asyncio.Queue()
        for connection in connections:
            self._free.put_nowait(connection)

    async def run(self, sql: str, given: object) -> None:
        """Run one statement, which must have changed one row."""
        connection = await self._free.get()
        try:
            cursor = await connection.execute(sql, given, prepare=True)  # type: ignore[arg-type]
            assert cursor.rowcount == 1, sql
        finally:
            self._free.put_nowait(connection)


@asynccontextmanager
async def _pool(url: str) -> AsyncIterator[_Pool]:
    connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(POOL)]
    try:
        yield _Pool(connections)
    finally:
        for connection in connections:
            await connection.close()


async def _node(pool: _Pool, node: int) -> None:
    given = {"node": node, "key": f"{node:032x}", "facts": FACTS}
    await pool.run(CLAIM, (node, "READY"))
    await pool.run(INTENT, given)
    await asyncio.sleep(LATENCY_SECONDS)
    await pool.run(SUBMITTED, given)
    await pool.run(CLAIM, (node, "SUBMITTED"))
    await asyncio.sleep(LATENCY_SECONDS)
    await pool.run(COMPLETED, given)


async def run(url: str, movements: int) -> dict[str, float]:
    """One run on an empty database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SCHEMA)
        connection.execute(FILL, {"movements": movements, "nodes": NODES})
    async with _pool(url) as pool:
        todo = iter(range(movements))

        async def in_flight() -> None:
            for movement in todo:
                for place in range(1, NODES + 1):
                    await _node(pool, movement * NODES + place)

        cpu, begun = time.process_time(), time.monotonic()
        await asyncio.gather(*(in_flight() for _ in range(IN_FLIGHT)))
        elapsed, cpu = time.monotonic() - begun, time.process_time() - cpu
    nodes = movements * NODES
    return {"per_second": nodes / elapsed, "client_cpu_ms": cpu * 1000 / nodes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--movements", type=int, default=1000)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    with server(given.url) as url, fresh_database(url, "bench_floor", migrated=False) as own:
        print(json.dumps(asyncio.run(run(own, given.movements))))


if __name__ == "__main__":
    main()
