"""A capital transfer in the sandbox's world, from the request to SETTLED, by the route of its inventory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qtg_dagster.composition import Platform, open_platform
from qtg_dagster.domain.capital_transfers import TransferState
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.requests import approve_movement, publish_template
from qtg_dagster.inventory import Inventory
from qtg_dagster.sandbox.plans import sample_plans
from qtg_dagster.sandbox.world import prepare_world
from qtg_dagster.settings import Settings
from qtg_dagster.store.capital_transfers import Transfer, read_transfer
from qtg_dagster.treasury.capital_transfers import TransferOrder, request_capital_transfer
from qtg_dagster.treasury.transfer_followup import follow_up_pending_capital_transfers
from tests.sandbox.test_sandbox_movement import exchange, units

_DEADLINE_SECONDS = 90.0


async def settled(platform: Platform, transfer_id: str) -> Transfer:
    """Work as the drains and the schedule do, until the transfer is not MOVING any more."""
    engine = platform.engine
    deadline = time.monotonic() + _DEADLINE_SECONDS
    async with engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        while True:
            worked = await dispatch_ready_nodes(engine, runner) + await observe_active_nodes(engine, runner)
            await follow_up_pending_capital_transfers(engine)
            async with platform.database.transaction() as tx:
                found = await read_transfer(tx, "sandbox", transfer_id)
            if found.state is not TransferState.MOVING:
                return found
            assert time.monotonic() < deadline, f"still {found.state}: {found.attention}"
            if not worked:
                await asyncio.sleep(0.05)  # until a look is due


async def test_a_transfer_between_exchanges_is_requested_approved_and_settled(
    start_chain: Callable[[], Any], free_port: int, tmp_path: Path, database_url: str
) -> None:
    world = prepare_world(tmp_path, start_chain().url, free_port)
    inventory = Inventory.load(world.inventory_file)
    order = TransferOrder.read(
        {"source": "venue_a.main", "destination": "venue_b", "asset": "USDC", "amount": "75.25", "requested_by": "ada"}
    )
    with exchange(world):
        before = await units(world)
        async with open_platform(Settings(database_url=database_url), inventory=inventory) as platform:
            for plan in sample_plans(inventory):
                await publish_template(platform.engine, plan)
            receipt = await request_capital_transfer(platform.engine, order)
            other = order.model_copy(update={"source": "treasury"})
            assert (await request_capital_transfer(platform.engine, other)).state is TransferState.MOVING
            assert await units(world) == before
            await approve_movement(platform.engine, str(receipt.movement_id), actor="grace")
            found = await settled(platform, receipt.transfer_id)
        after = await units(world)
    assert (found.state, found.attempt_no, found.attention) == (TransferState.SETTLED, 1, None)
    assert [attempt.template_key for attempt in found.attempts] == ["cex_chain_cex_usdc"]
    assert (before["venue_a"], after["venue_a"]) == ("1000000", "999924.75")
    assert (before["venue_b"], after["venue_b"]) == ("50000", "50074.25")
    assert before[world.chain] == after[world.chain]
