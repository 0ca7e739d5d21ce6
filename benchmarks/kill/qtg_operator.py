"""The people around ours: who creates and approves the movements, and who retries what is proven never to have left.

They sit at a desk of their own, as in life: a process that nobody kills.
"""

from __future__ import annotations

import asyncio
import sys

import structlog

from benchmarks.instant import chain_of, open_engine
from benchmarks.kill.wire import MOVEMENTS, STEPS
from qtg_dagster.engine.interventions import retry_node
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template

_FAILED = """
    SELECT r.id::text AS request_id, n.node_key
    FROM qtg.movement_requests r JOIN qtg.movement_request_nodes n ON n.request_id = r.id
    WHERE n.node_state = 'FAILED' AND r.request_state IN ('MANUAL_INTERVENTION', 'FAILED')
"""


async def set_up(engine: Engine) -> None:
    await publish_template(engine, chain_of(STEPS))
    order = MovementOrder(template_key=f"bench_chain_{STEPS}", requested_by="bench")
    for _ in range(MOVEMENTS):
        receipt = await create_movement(engine, order)
        await approve_movement(engine, receipt.request_id, actor="bench approver")


async def operate(engine: Engine) -> None:
    """Until ended."""
    while True:
        async with engine.database.connection() as connection:
            failed = await (await connection.execute(_FAILED)).fetchall()
        for row in failed:
            reason = "it never left"
            await retry_node(engine, row["request_id"], row["node_key"], actor="bench operator", reason=reason)
        await asyncio.sleep(0.05)


async def main(verb: str, url: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    async with open_engine(url) as engine:
        await (set_up(engine) if verb == "set-up" else operate(engine))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
