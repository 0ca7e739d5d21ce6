"""(j) 1,000 callbacks to 50 receivers, 5 of them hanging: `python -m benchmarks.callbacks [--url URL]`.

One delivery drain with the settings' own limits, on a pool of five connections; each callback is another movement's.
The receivers are a process of their own on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import structlog

from benchmarks.instant import chain_of, open_engine
from benchmarks.server import fresh_database, server
from qtg_dagster.callbacks.courier import CallbackCourier
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import create_movement, publish_template
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.upkeep.delivery import Delivery

ANSWERING, HANGING = 45, 5
_COPY = """
    INSERT INTO qtg.movement_requests (network_class, plan_version_id, request_state, body_hash, compiled_plan_hash,
        approval_digest, requested_by, reason)
    SELECT network_class, plan_version_id, 'PENDING_APPROVAL', body_hash, compiled_plan_hash, approval_digest,
           requested_by, reason
    FROM qtg.movement_requests CROSS JOIN generate_series(2, %s)
"""
_TELL = """
    INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url)
    SELECT id, 'request_state_changed', jsonb_build_object('request_id', id, 'request_state', 'APPROVED'),
           format('http://127.0.0.1:%%s/hook', (%s::int[])[1 + (row_number() OVER (ORDER BY id) - 1) %% %s])
    FROM qtg.movement_requests
"""


async def one_movement(url: str) -> None:
    async with open_engine(url) as engine:
        await publish_template(engine, chain_of(1))
        await create_movement(engine, MovementOrder(template_key="bench_chain_1", requested_by="bench"))


def settings_of(url: str, folder: Path) -> Settings:
    """The defaults, with a secret and this machine allowed."""
    (folder / "secret").write_text("a secret of at least twenty-four bytes")
    (folder / "inventory.yaml").write_text(f"callbacks: {{secret: {{file: {folder / 'secret'}}}}}\n")
    return Settings(
        database_url=url,
        inventory_file=folder / "inventory.yaml",
        callback_allowed_hosts="127.0.0.1",
        drain_stop_grace_seconds=0,
        drain_linger_seconds=3600,
    )


async def deliver(url: str, ports: list[int], callbacks: int, folder: Path) -> dict[str, float]:
    """Seconds until all that can be delivered is."""
    wanted = callbacks * ANSWERING // len(ports)
    settings = settings_of(url, folder)
    database = Database(url, pool_size=5)
    drain = Delivery(PostgresStore(database), settings, [CallbackCourier(database, settings)])
    task = asyncio.create_task(drain.run())
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as looker:
        while not drain.report.runner_id:
            await asyncio.sleep(0.01)
        await looker.execute(_TELL, (ports, len(ports)))
        begun, cpu = time.monotonic(), time.process_time()
        while True:
            found = await looker.execute("SELECT count(*) FROM qtg.movement_callback_outbox WHERE status = 'delivered'")
            if (row := await found.fetchone()) is not None and row[0] >= wanted:
                break
            await asyncio.sleep(0.02)
        seconds, busy = time.monotonic() - begun, time.process_time() - cpu
    drain.stop("measured")
    await task
    await database.close()
    return {"seconds": seconds, "per_second": wanted / seconds, "cpu_seconds": busy}


def run(url: str, callbacks: int) -> dict[str, float]:
    """One case on an empty database."""
    asyncio.run(one_movement(url))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_COPY, (callbacks,))
    command = [sys.executable, "-m", "benchmarks.callback_receivers", str(ANSWERING), str(HANGING)]
    with (
        tempfile.TemporaryDirectory(prefix="qtg-bench-") as folder,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        ) as receivers,
    ):
        assert receivers.stdin is not None
        assert receivers.stdout is not None
        ports = json.loads(receivers.stdout.readline())
        figures = asyncio.run(deliver(url, ports, callbacks, Path(folder)))
        receivers.stdin.close()
        told = json.loads(receivers.stdout.readline())
    each = callbacks // len(ports)
    missing = sum(each - events for events, _ in told[:ANSWERING])
    return {**figures, "lost": missing, "doubled": sum(twice for _, twice in told[:ANSWERING])}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--callbacks", type=int, default=1000)
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with server(given.url) as url, fresh_database(url, "bench_callbacks") as own:
        print(json.dumps(run(own, given.callbacks)))


if __name__ == "__main__":
    main()
