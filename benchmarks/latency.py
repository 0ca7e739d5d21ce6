"""How long a READY node waits, with the drains warm: `python -m benchmarks.latency [--url URL]`.

Prints, and writes as JSON: READY to provider call for single nodes (p50, p99), and the time of a whole movement of
five nodes on instant providers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.instant import chain_of, open_engine
from qtg_dagster.domain.states import RequestState
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from qtg_dagster.store.migrate import upgrade
from qtg_dagster.store.slots import slot_state
from qtg_dagster.store.views import MovementView, read_movement

WARM_UP = 20
SINGLES = 200
CHAINS = 40


@contextmanager
def drains(url: str, kinds: tuple[str, ...] = ("dispatch", "observe")) -> Iterator[None]:
    """Warm drain processes for the time of the block."""
    processes = [subprocess.Popen([sys.executable, "-m", "benchmarks.drain_process", kind, url]) for kind in kinds]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=30)


async def run_one(engine: Engine, template_key: str) -> tuple[MovementView, float]:
    """Create, approve and await one movement; returns it and when it became READY."""
    receipt = await create_movement(engine, MovementOrder(template_key=template_key, requested_by="bench"))
    ready_at = time.monotonic()
    await approve_movement(engine, receipt.request_id, actor="bench approver")
    while True:
        async with engine.database.transaction() as transaction:
            movement = await read_movement(transaction, engine.settings.network_class, receipt.request_id)
        if movement.request_state is RequestState.COMPLETED:
            return movement, ready_at
        await asyncio.sleep(0.01)


async def measure(url: str) -> dict[str, float]:
    """All figures in milliseconds."""
    async with open_engine(url) as engine:
        for length in (1, 5):
            await publish_template(engine, chain_of(length))
        for kind in ("dispatch", "observe"):
            while not (await slot_state(engine.database, kind, engine.settings.network_class)).held:
                await asyncio.sleep(0.05)
        for _ in range(WARM_UP):
            await run_one(engine, "bench_chain_1")
        waits = [_wait_ms(*await run_one(engine, "bench_chain_1")) for _ in range(SINGLES)]
        wholes = [_whole_ms(*await run_one(engine, "bench_chain_5")) for _ in range(CHAINS)]
    return {
        "ready_to_provider_call_p50_ms": round(statistics.median(waits), 1),
        "ready_to_provider_call_p99_ms": round(statistics.quantiles(waits, n=100, method="inclusive")[98], 1),
        "five_nodes_p50_ms": round(statistics.median(wholes), 1),
        "five_nodes_max_ms": round(max(wholes), 1),
    }


def _wait_ms(movement: MovementView, ready_at: float) -> float:
    return (float(movement.nodes[0].provider_refs["called_at"]) - ready_at) * 1000


def _whole_ms(movement: MovementView, ready_at: float) -> float:
    return (float(movement.nodes[-1].provider_refs["completed_at"]) - ready_at) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="", help="PostgreSQL to use; default: an embedded one, durable settings on")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    if options.url:
        figures = run(options.url)
    else:
        from qtg_dagster.host.postgres import EmbeddedPostgres

        with tempfile.TemporaryDirectory(prefix="qtg-bench-") as home:
            Path(home).chmod(0o711)
            server = EmbeddedPostgres(Path(home))
            try:
                figures = run(server.start())
            finally:
                server.destroy()
    for name, value in figures.items():
        print(f"{name:34} {value:10.1f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def run(url: str) -> dict[str, float]:
    """Migrate, warm the drains up, measure."""
    upgrade(url)
    with drains(url):
        return asyncio.run(measure(url))


if __name__ == "__main__":
    main()
