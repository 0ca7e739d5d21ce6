"""Ours: three drains over an executor that submits once and asks the provider by key when an answer was lost.

A step that is proven not to have moved is FAILED until a person retries it; the person is played here.
"""

from __future__ import annotations

import asyncio
import sys

import structlog
from sqlalchemy import text

from benchmarks.instant import InstantExecutor, chain_of, open_engine
from benchmarks.kill.wire import IN_FLIGHT, MOVEMENTS, STEPS, ask
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template

_STAND = text("""
    SELECT r.id::text, r.request_state, (
        SELECT n.node_key FROM qtg.movement_request_nodes n WHERE n.request_id = r.id AND n.node_state = 'FAILED')
    FROM qtg.movement_requests r WHERE r.finished_at IS NULL
""")


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


async def set_up(engine: Engine) -> None:
    await publish_template(engine, chain_of(STEPS))
    order = MovementOrder(template_key=f"bench_chain_{STEPS}", requested_by="bench")
    for _ in range(MOVEMENTS):
        receipt = await create_movement(engine, order)
        await approve_movement(engine, receipt.request_id, actor="bench approver")


async def work(engine: Engine) -> None:
    """Until every movement has ended."""
    drains = [Drain(engine, kind) for kind in DrainKind]
    tasks = [asyncio.create_task(drain.run()) for drain in drains]
    while True:
        async with engine.database.transaction() as transaction:
            open_now = (await transaction.execute(_STAND)).all()
        for request_id, state, failed in open_now:
            if failed is not None and state in ("MANUAL_INTERVENTION", "FAILED"):
                await retry_node(engine, request_id, failed, actor="bench operator", reason="it never left")
        if not open_now:
            break
        await asyncio.sleep(0.05)
    for drain in drains:
        drain.stop("settled")
    await asyncio.gather(*tasks)


async def main(verb: str, url: str, socket: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    given = {"drain_concurrency": IN_FLIGHT, "node_recovery_batch_size": 64, "node_recovery_interval_seconds": 1}
    async with open_engine(url, executor=_Mover(socket), **given) as engine:
        await (set_up(engine) if verb == "set-up" else work(engine))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
