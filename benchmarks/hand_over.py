"""(h) What a drain's hand-over to its successor costs: `python -m benchmarks.hand_over [--seconds S] [--url URL]`.

Drains with a budget of 5 s, each succeeded by a new process that waits for its slot, under 20 single-node movements a
second; the figure is the longest wait from READY to the provider call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time

from sqlalchemy import text

from benchmarks.instant import chain_of, open_engine
from benchmarks.server import fresh_database, server
from benchmarks.throughput import until_all_ended
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from qtg_dagster.store.slots import slot_state

BUDGET_SECONDS = 5.0
RATE = 20.0
_CALLED = text("SELECT request_id::text, (provider_refs ->> 'called_at')::float8 FROM qtg.movement_request_nodes")


class _Line:
    """A drain of each kind and, always, a successor that waits for it."""

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine = engine
        self._url = url
        self.processes: list[subprocess.Popen[bytes]] = []
        self.started = 0

    async def keep(self) -> None:
        while True:
            for kind in ("dispatch", "observe"):
                state = await slot_state(self._engine.database, kind, self._engine.settings.network_class)
                living = sum(1 for one in self.processes if one.poll() is None and one.args[3] == kind)  # type: ignore[index]
                if living < 1 or (living < 2 and state.held):
                    command = [sys.executable, "-m", "benchmarks.drain_process", kind, self._url, "0", "64"]
                    self.processes.append(subprocess.Popen([*command, str(BUDGET_SECONDS)]))
                    self.started += 1
            await asyncio.sleep(0.2)

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)


async def run(url: str, seconds: float) -> dict[str, float]:
    """Milliseconds from the approval to the provider call, over several hand-overs."""
    ready: dict[str, float] = {}
    async with open_engine(url) as engine:
        await publish_template(engine, chain_of(1))
        order = MovementOrder(template_key="bench_chain_1", requested_by="bench")
        line = _Line(engine, url)
        keeping = asyncio.create_task(line.keep())
        try:
            for kind in ("dispatch", "observe"):
                while not (await slot_state(engine.database, kind, engine.settings.network_class)).held:
                    await asyncio.sleep(0.05)
            begun = time.monotonic()
            for place in range(int(seconds * RATE)):
                receipt = await create_movement(engine, order)
                await asyncio.sleep(max(0.0, begun + place / RATE - time.monotonic()))
                await approve_movement(engine, receipt.request_id, actor="bench approver")
                ready[receipt.request_id] = time.monotonic()
            await until_all_ended(engine)
        finally:
            keeping.cancel()
            line.end()
        async with engine.database.transaction() as transaction:
            called = (await transaction.execute(_CALLED)).all()
    waits = [(at - ready[request_id]) * 1000 for request_id, at in called]
    ended = sum(1 for process in line.processes if process.returncode == 0)
    return {"hand_overs": line.started - 4, "ended": ended, "p50_ms": statistics.median(waits), "max_ms": max(waits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--url", default="", help="server to use; default: an embedded one, durable settings on")
    given = parser.parse_args()
    with server(given.url) as url, fresh_database(url, "bench_hand_over") as own:
        print(json.dumps(asyncio.run(run(own, given.seconds))))


if __name__ == "__main__":
    main()
