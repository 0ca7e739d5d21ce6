"""The sample movement from exchange to exchange through real executors, with everything killed half way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from qtg_dagster.domain.contract import ExecutionContext, PreparedAction, ResultStatus
from qtg_dagster.domain.plans import PlanNode
from qtg_dagster.domain.refs import resolve_config
from qtg_dagster.engine.context import build_sign_request, idempotency_key
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.executors.signers.local import build_signer
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes import cex, evm
from qtg_dagster.sandbox.plans import sample_plans
from qtg_dagster.sandbox.world import TREASURY_SIGNER, World, prepare_world


class Memory:
    """Nonces and signatures of one short test."""

    async def reserve(self, *, chain_nonce: int, **_: Any) -> int:
        return chain_nonce

    async def record(self, **_: Any) -> None:
        return None


class Mover:
    """Walks the nodes of a plan in order, as the engine would with nothing going wrong."""

    def __init__(self, inventory: Inventory, amount: str) -> None:
        self.executors = ExecutorRegistry()
        self.lanes = (cex.register(self.executors, inventory), evm.register(self.executors, inventory, Memory()))
        self.signer = build_signer(TREASURY_SIGNER, inventory.signers[TREASURY_SIGNER], inventory, Memory())
        self.plan = sample_plans(inventory)[0]
        self.params = {"amount": amount}
        self.refs: dict[str, dict[str, Any]] = {}

    async def run(self, node: PlanNode) -> dict[str, Any]:
        context = self._context(node)
        executor = self.executors.resolve(str(node.executor_key))
        assert await executor.preflight(context) is None
        prepared = await self._signed(context, await executor.prepare(context))
        context = context.model_copy(update={"prepared": prepared})
        result = await executor.submit(context, prepared)
        refs = {**prepared.provider_refs, **result.provider_refs}
        deadline = time.monotonic() + 60
        while result.status is not ResultStatus.COMPLETED:
            assert result.status in (ResultStatus.ACCEPTED, ResultStatus.OBSERVING), result
            assert time.monotonic() < deadline, result
            await asyncio.sleep(0.05)
            result = await executor.observe(context.model_copy(update={"node_refs": refs}))
            refs |= result.provider_refs
        self.refs[node.node_key] = refs
        return refs

    async def _signed(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        if not prepared.signing_required:
            return prepared
        signed = await self.signer.sign(build_sign_request(context, prepared))
        return prepared.model_copy(update={"signed_payload": signed.signed_payload})

    def _context(self, node: PlanNode) -> ExecutionContext:
        node_id = str(uuid.uuid4())
        config = resolve_config(node.config, intent={}, input_params=self.params, completed_refs=self.refs)
        return ExecutionContext(
            request_id=str(uuid.uuid4()),
            request_node_id=node_id,
            compiled_plan_hash="0" * 64,
            template_key="sample",
            template_version=1,
            node_key=node.node_key,
            node_kind=node.node_kind,
            action_type=node.action_type,
            attempt_no=1,
            intent={},
            input_params=self.params,
            resolved_bindings={},
            risk_controls=self.plan.risk_controls.model_dump(mode="json"),
            node_config=config,
            provider_context={},
            idempotency_key=idempotency_key(node_id, 1),
        )


@asynccontextmanager
async def mover(world: World, amount: str, refs: dict[str, dict[str, Any]]) -> AsyncIterator[Mover]:
    walker = Mover(Inventory.load(world.inventory_file), amount)
    walker.refs = refs
    try:
        yield walker
    finally:
        for lane in walker.lanes:
            await lane.close()


@contextmanager
def exchange(world: World) -> Any:
    """The stand-in exchange on the world's port, killed at the end."""
    port = world.exchange_url.rpartition(":")[2]
    command = [sys.executable, "-m", "qtg_dagster.sandbox.exchange", "--config", str(world.exchange_config)]
    process = subprocess.Popen([*command, "--port", port])
    deadline = time.monotonic() + 60
    try:
        with httpx.Client() as client:
            while True:
                try:
                    client.get(f"{world.exchange_url}/venue_a/api/v3/ping")
                    break
                except httpx.TransportError:
                    assert process.poll() is None, "the exchange ended"
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


async def units(world: World) -> dict[str, str]:
    """Free USDC by venue and chain, in the wallets that pay."""
    executors, inventory = ExecutorRegistry(), Inventory.load(world.inventory_file)
    lanes = (cex.register(executors, inventory), evm.register(executors, inventory, Memory()))
    try:
        fetchers = [fetcher for lane in lanes for fetcher in lane.balance_fetchers]
        found = [(fetcher.paying_wallet, await fetcher.fetch()) for fetcher in fetchers]
        kept = [each for wallet, readings in found for each in readings if each.wallet == wallet]
        return {each.venue_key: each.free for each in kept if each.asset == "USDC"}
    finally:
        for lane in lanes:
            await lane.close()


@pytest.mark.parametrize("kill_after", ["withdraw", "transfer"])
async def test_a_movement_survives_the_death_of_chain_and_exchange(
    start_chain: Callable[[], Any], free_port: int, tmp_path: Path, kill_after: str
) -> None:
    chain = start_chain()
    world = prepare_world(tmp_path, chain.url, free_port)
    nodes = list(sample_plans(Inventory.load(world.inventory_file))[0].nodes)
    half = [node.node_key for node in nodes].index(kill_after) + 1
    refs: dict[str, dict[str, Any]] = {}
    with exchange(world):
        before = await units(world)
        async with mover(world, "75.25", refs) as first:
            for node in nodes[:half]:
                await first.run(node)
        chain.kill()
    again = prepare_world(tmp_path, start_chain().url, free_port)
    assert again.epoch == world.epoch
    with exchange(again):
        async with mover(again, "75.25", refs) as second:
            for node in nodes[half:]:
                await second.run(node)
        after = await units(again)
    assert refs["receive"]["received_amount"] == "74.25"
    assert refs["deposit_match"]["credited_amount"] == "74.25"
    assert (before["venue_a"], after["venue_a"]) == ("1000000", "999924.75")
    assert (before["venue_b"], after["venue_b"]) == ("50000", "50074.25")
    assert before[world.chain] == after[world.chain]
