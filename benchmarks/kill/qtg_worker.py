"""Ours: three drains over an executor that submits once and asks the provider by key when an answer was lost.

A step that is proven not to have moved is FAILED until a person retries it: `qtg_operator` plays that person.
"""

from __future__ import annotations

import asyncio
import sys

import structlog

from benchmarks.instant import InstantExecutor, open_engine
from benchmarks.kill.wire import IN_FLIGHT, ask
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.parts import Engine

_OPEN = "SELECT count(*) AS open FROM qtg.movement_requests WHERE finished_at IS NULL"


class _Mover(InstantExecutor):
    """Moves money at the provider of that socket. What the provider lacks a second after the intent never left."""

    submit_grace_seconds = 1.0

    def __init__(self, socket: str) -> None:
        super().__init__()
        self._socket = socket

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        key = context.idempotency_key
        await ask(self._socket, "move", context.request_node_id, key)
        return ExecutionResult(status=ResultStatus.ACCEPTED, provider_refs={"key": key}, evidence={"key": key})

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        key = context.idempotency_key
        found = int(await ask(self._socket, "ask", key))
        status = ResultStatus.COMPLETED if found else ResultStatus.FAILED
        return ExecutionResult(status=status, error_code=None if found else "NEVER_LEFT", evidence={"found": found})


async def work(engine: Engine) -> None:
    """Until every movement has ended."""
    drains = [Drain(engine, kind) for kind in DrainKind]
    tasks = [asyncio.create_task(drain.run()) for drain in drains]
    while True:
        async with engine.database.connection() as connection:
            row = await (await connection.execute(_OPEN)).fetchone()
        if row is not None and not row["open"]:
            break
        await asyncio.sleep(0.05)
    for drain in drains:
        drain.stop("settled")
    await asyncio.gather(*tasks)


async def main(url: str, socket: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    given = {"drain_concurrency": IN_FLIGHT, "node_recovery_batch_size": 64, "node_recovery_interval_seconds": 1}
    async with open_engine(url, executor=_Mover(socket), **given) as engine:
        await work(engine)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[2:4]))
