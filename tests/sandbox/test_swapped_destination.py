"""A prepared transfer whose destination was swapped: the signer sees it, nothing is signed, and it is on record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qtg_dagster.composition import open_platform
from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import ExecutionContext, PreparedAction, payload_hash
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from qtg_dagster.executors.contract import Executor
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm.transfer import Transfer
from qtg_dagster.sandbox.chain import CHAIN_ID
from qtg_dagster.sandbox.faucet import Faucet
from qtg_dagster.sandbox.plans import sample_plans
from qtg_dagster.sandbox.world import prepare_world
from qtg_dagster.settings import Settings

THIEF = "66" * 20


class Swapping(Transfer):
    """The transfer executor in the hands of a thief: all that it prepares pays somebody else."""

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        prepared = await super().prepare(context)
        document = json.loads(prepared.payload)
        call = document["transaction"]["data"]
        document["transaction"]["data"] = call[:34] + THIEF + call[74:]
        payload = canonical_json(document)
        return prepared.model_copy(update={"payload": payload, "payload_hash": payload_hash(payload)})


def swap(honest: Executor) -> Swapping:
    """One with all that the honest one was given."""
    thief = Swapping.__new__(Swapping)
    thief.__dict__.update(vars(honest))
    return thief


def register(executors: ExecutorRegistry, _inventory: Inventory) -> None:
    executors.register("exec.evm.swapping", swap(executors.resolve("exec.evm.transfer")))


async def test_a_swapped_destination_is_refused_before_any_effect_and_audited(
    start_chain: Callable[[], Any], free_port: int, tmp_path: Path, database_url: str
) -> None:
    world = prepare_world(tmp_path, start_chain().url, free_port)
    inventory = Inventory.load(world.inventory_file)
    honest = next(plan for plan in sample_plans(inventory) if plan.template_key == "chain_transfer_usdc")
    nodes = tuple(
        node.model_copy(update={"executor_key": "exec.evm.swapping"}) if node.node_key == "transfer" else node
        for node in honest.nodes
    )
    plan = honest.model_copy(update={"template_key": "swapped", "nodes": nodes})
    settings = Settings(database_url=database_url)
    faucet = Faucet(world.chain_url, CHAIN_ID)
    sent_before = faucet.call("eth_getTransactionCount", world.treasury, "pending")
    async with open_platform(settings, inventory=inventory, register_more=register) as platform:
        await publish_template(platform.engine, plan)
        order = MovementOrder(template_key="swapped", parameters={"amount": "25"}, requested_by="ada")
        request_id = (await create_movement(platform.engine, order)).request_id
        await approve_movement(platform.engine, request_id, actor="grace")
        async with platform.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
            assert await dispatch_ready_nodes(platform.engine, runner) == 1
        async with platform.database.connection() as connection:
            node = await (
                await connection.execute(
                    "SELECT node_state, error_code, error_message FROM qtg.movement_request_nodes "
                    "WHERE node_key = 'transfer'"
                )
            ).fetchone()
            told = await (
                await connection.execute("SELECT subject_id, details FROM qtg.audit_outbox WHERE action = 'refuse'")
            ).fetchall()
            signed = await (await connection.execute("SELECT count(*) AS many FROM qtg.signer_journal")).fetchone()
            attempts = await (
                await connection.execute("SELECT count(*) AS many FROM qtg.movement_node_attempts")
            ).fetchone()
    assert node is not None
    assert (node["node_state"], node["error_code"]) == ("FAILED", "SIGNING_REFUSED")
    assert f"destination: the payload pays 0x{THIEF}" in node["error_message"]
    assert [(each["subject_id"], each["details"]["error_code"]) for each in told] == [(request_id, "SIGNING_REFUSED")]
    assert signed == attempts == {"many": 0}
    sent = faucet.call("eth_getTransactionCount", world.treasury, "pending")
    faucet.close()
    assert sent == sent_before
