"""One key, one movement: whatever became of its template, whoever asks at once, and in whatever kind of transaction."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from sqlalchemy import text

from qtg_dagster.domain.errors import Conflict, RiskControlViolated
from qtg_dagster.engine.requests import create_movement, publish_template
from tests.engine.desk import Desk
from tests.engine.plans import LIMITS, chain, node, order_of, plan_of

KEYED = {"idempotency_key": "payroll 7"}


async def test_a_movement_stands_although_its_template_was_tightened(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    first = await create_movement(desk.engine, order_of(chain(), **KEYED))
    tighter = chain().model_copy(update={"risk_controls": LIMITS.model_copy(update={"hard_cap": "1"})})
    await publish_template(desk.engine, tighter)
    with pytest.raises(RiskControlViolated):
        await create_movement(desk.engine, order_of(chain()))
    again = await create_movement(desk.engine, order_of(chain(), **KEYED))
    assert again == first.model_copy(update={"created": False})


async def test_a_snapshot_that_is_too_old_to_see_the_movement_is_told_so(desk: Desk) -> None:
    await publish_template(desk.engine, chain())
    async with desk.engine.database.session() as session:
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        await session.execute(text("SELECT count(*) FROM qtg.movement_requests"))
        await create_movement(desk.engine, order_of(chain(), **KEYED))
        with pytest.raises(Conflict, match="yours began too early"):
            await create_movement(desk.engine, order_of(chain(), **KEYED), session)
        await session.rollback()
    assert len(await desk.rows("SELECT 1 FROM qtg.movement_requests")) == 1


CREATE = """
import asyncio, json, sys
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import create_movement
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AssetEntry, Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from tests.engine.provider import ScriptedExecutor, ScriptedProvider

async def main() -> None:
    url, document = sys.argv[1:]
    executors = ExecutorRegistry()
    executors.register("exec.local.move", ScriptedExecutor(ScriptedProvider()))
    inventory = Inventory.model_construct(assets={"USDC": AssetEntry(symbol="USDC", decimals=6)}, accounts={})
    database = Database(url, pool_size=1)
    engine = Engine(PostgresStore(database), Settings(database_url=url), inventory, executors, SignerRegistry())
    print("ready", flush=True)
    sys.stdin.readline()
    receipt = await create_movement(engine, MovementOrder.read(json.loads(document)))
    print(json.dumps([receipt.request_id, receipt.created]), flush=True)
    await database.close()

asyncio.run(main())
"""


async def test_two_processes_with_one_key_make_one_movement(desk: Desk, database_url: str) -> None:
    plan = plan_of(node("first"))
    await publish_template(desk.engine, plan)
    document = json.dumps({"template_key": "sample", "parameters": {"amount": "1"}, "requested_by": "ada", **KEYED})
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", CREATE, database_url, document, stdin=pipe, stdout=pipe
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    receipts = [json.loads(out) for out, _ in answers]
    assert len({request_id for request_id, _ in receipts}) == 1
    assert sorted(created for _, created in receipts) == [False, True]
    assert len(await desk.rows("SELECT 1 FROM qtg.movement_requests")) == 1
