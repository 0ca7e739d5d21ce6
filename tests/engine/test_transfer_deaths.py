"""Whoever dies where, and however many follow up at once: one movement an attempt, and no transfer lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter

import psycopg
import pytest

from qtg_dagster import faults
from qtg_dagster.domain.capital_transfers import TransferState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import approve_movement, publish_template, reject_movement
from qtg_dagster.faults import FaultInjected, FaultPoint
from qtg_dagster.host.paths import project_root
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.roles import APP
from qtg_dagster.treasury.transfer_decisions import retry_capital_transfer
from qtg_dagster.treasury.transfer_followup import follow_up_pending_capital_transfers
from tests.conftest import as_role
from tests.engine.desk import Desk
from tests.engine.plans import chain
from tests.engine.transfers import (
    ORDER,
    audited,
    expire,
    follow,
    movements,
    request,
    stored_only,
    take_route,
    transfer,
)

P, T = FaultPoint, TransferState
KEYED = {"idempotency_key": "margin 7"}

#: Does one thing on an engine of its own, and is killed where its environment says.
VICTIM = """
import asyncio, json, sys
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.treasury.capital_transfers import TransferOrder, request_capital_transfer
from qtg_dagster.treasury.transfer_followup import follow_up_pending_capital_transfers
from tests.engine.provider import ScriptedExecutor, ScriptedProvider
from tests.engine.transfers import inventory_of

async def main() -> None:
    url, deed, route, order = sys.argv[1:]
    executors = ExecutorRegistry()
    for key in ("exec.local.move", "exec.local.watch"):
        executors.register(key, ScriptedExecutor(ScriptedProvider()))
    database = Database(url, pool_size=2)
    settings = Settings(database_url=url)
    engine = Engine(PostgresStore(database), settings, inventory_of(**json.loads(route)), executors, SignerRegistry())
    if deed == "request":
        await request_capital_transfer(engine, TransferOrder.read(json.loads(order)))
    else:
        await follow_up_pending_capital_transfers(engine)

asyncio.run(main())
"""


@pytest.fixture
async def desk(desk: Desk) -> Desk:
    take_route(desk, approval_rounds=2)
    await publish_template(desk.engine, chain())
    return desk


async def killed(desk: Desk, deed: str, point: FaultPoint) -> None:
    """A process that does the deed and is killed at the point."""
    url = desk.engine.settings.database_url
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", VICTIM, url, deed, json.dumps({"approval_rounds": 2}), json.dumps({**ORDER, **KEYED})),
        env={**os.environ, "QTG_FAULT": f"{point}:kill", "PYTHONPATH": str(project_root())},
    )
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("point", [P.TRANSFER_STORED, P.TRANSFER_MOVEMENT_MADE, P.TRANSFER_BEGUN])
async def test_who_is_killed_while_requesting_leaves_one_transfer_that_becomes_one_movement(
    desk: Desk, point: FaultPoint
) -> None:
    await killed(desk, "request", point)
    assert await movements(desk) == []
    assert dict((await follow(desk)).changes) == {"begun": 1}
    again = await request(desk.engine, **KEYED)
    assert (again.created, again.state) == (False, T.MOVING)
    assert [row["id"] for row in await movements(desk)] == [again.movement_id]
    assert await audited(desk) == ["request", "begin"]


@pytest.mark.parametrize("point", [P.TRANSFER_MOVEMENT_MADE, P.TRANSFER_FOLLOWED])
async def test_who_is_killed_while_beginning_one_leaves_it_to_the_next(desk: Desk, point: FaultPoint) -> None:
    transfer_id = await stored_only(desk)
    await killed(desk, "follow up", point)
    assert await movements(desk) == []
    assert (await transfer(desk, transfer_id)).state is T.REQUESTED
    await follow(desk)
    assert [row["id"] for row in await movements(desk)] == [(await transfer(desk, transfer_id)).movement_id]


@pytest.mark.parametrize("point", [P.TRANSFER_MOVEMENT_MADE, P.TRANSFER_FOLLOWED])
async def test_who_is_killed_while_asking_again_has_not_asked(desk: Desk, point: FaultPoint) -> None:
    receipt = await request(desk.engine)
    await expire(desk, str(receipt.movement_id))
    await killed(desk, "follow up", point)
    assert [row["state"] for row in await movements(desk)] == ["EXPIRED"]
    assert dict((await follow(desk)).changes) == {"asked again": 1}
    assert [row["state"] for row in await movements(desk)] == ["EXPIRED", "PENDING_APPROVAL"]


async def test_who_is_killed_while_settling_settles_nothing_and_the_next_does(desk: Desk) -> None:
    receipt = await request(desk.engine)
    await approve_movement(desk.engine, str(receipt.movement_id), actor="grace")
    for _ in range(3):
        await desk.dispatch()
        await desk.make_due()
        await desk.observe()
    await killed(desk, "follow up", P.TRANSFER_FOLLOWED)
    assert (await transfer(desk, receipt.transfer_id)).state is T.MOVING
    await follow(desk)
    assert (await transfer(desk, receipt.transfer_id)).state is T.SETTLED
    assert await audited(desk) == ["request", "begin", "settle"]


@pytest.mark.parametrize("point", [P.TRANSFER_MOVEMENT_MADE, P.TRANSFER_BEGUN])
async def test_a_retry_that_falls_over_half_way_is_one_attempt_all_the_same(desk: Desk, point: FaultPoint) -> None:
    receipt = await request(desk.engine)
    await reject_movement(desk.engine, str(receipt.movement_id), actor="grace", reason="no")
    await follow(desk)
    faults.arm(f"{point}:raise")
    try:
        with pytest.raises(FaultInjected):
            await retry_capital_transfer(desk.engine, receipt.transfer_id, actor="grace", reason="yes")
    finally:
        faults.arm("")
    found = await transfer(desk, receipt.transfer_id)
    assert (found.state, found.attempt_no, found.movement_id) == (T.REQUESTED, 2, None)
    await follow(desk)
    assert [row["state"] for row in await movements(desk)] == ["REJECTED", "PENDING_APPROVAL"]
    assert (await transfer(desk, receipt.transfer_id)).attempt_no == 2


async def test_followers_at_once_make_one_movement_a_transfer(desk: Desk, database_url: str) -> None:
    transfers = [await stored_only(desk, reason=str(number)) for number in range(6)]
    expiring = [await request(desk.engine, reason=f"again {number}") for number in range(3)]
    for receipt in expiring:
        await expire(desk, str(receipt.movement_id))
    engines = [other_engine(desk.engine, database_url) for _ in range(3)]
    done = await asyncio.gather(*(follow_up_pending_capital_transfers(engine) for engine in engines))
    for engine in engines:
        await engine.database.close()
    await follow(desk)  # whatever one left to another that held it at that moment
    changes = sum((one.changes for one in done), Counter[str]())
    assert changes["begun"] <= 6
    assert changes["asked again"] <= 3
    rows = await desk.rows(
        "SELECT transfer_id::text AS id, count(*) AS n FROM qtg.capital_transfer_attempts GROUP BY 1"
    )
    assert {row["id"]: row["n"] for row in rows} == {
        **dict.fromkeys(transfers, 1),
        **{receipt.transfer_id: 2 for receipt in expiring},
    }
    assert len(await movements(desk)) == 6 + 2 * 3
    assert Counter(await audited(desk)) == {"request": 9, "begin": 12, "ask_again": 3}


def other_engine(engine: Engine, url: str) -> Engine:
    """The same on connections of its own."""
    store = PostgresStore(Database(as_role(url, APP), pool_size=2))
    return Engine(store, engine.settings, engine.inventory, engine.executors, engine.signers)


async def test_one_that_another_holds_is_left_to_it(desk: Desk, database_url: str) -> None:
    transfer_id = await stored_only(desk)
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM qtg.capital_transfer_requests FOR UPDATE")
        assert (await follow(desk)).changed == 0
    assert (await transfer(desk, transfer_id)).state is T.REQUESTED
    assert (await follow(desk)).changed == 1
