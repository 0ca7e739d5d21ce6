"""A movement over a remote executor that is killed between executing and answering: it ends COMPLETED, moved once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.inventory import AssetEntry, Inventory
from qtg_dagster.settings import Settings
from tests.engine.grounds import Ground, MemoryGround, PostgresGround
from tests.engine.plans import begin, node, plan_of
from tests.executors.remote.conftest import Connect
from tests.executors.remote.node_service import NodeService, node_service
from tests.executors.remote.orders import KEY

PLAN = plan_of(node("first", executor=KEY, config={"asset": "USDC", "amount": "12.5", "destination": "0xallowed"}))
LATER = 4000.0


@dataclass
class Desk:
    engine: Engine
    ground: Ground

    def state(self, request_id: str) -> tuple[str, str]:
        """Of the movement and of its node."""
        [row] = self.ground.nodes(request_id)
        return self.ground.request_state(request_id), str(row["node_state"])

    async def recover(self) -> int:
        self.ground.advance(LATER)
        async with self.engine.store.runner(RunnerIdentity("recover", "sandbox")) as runner:
            return await recover_unknown_nodes(self.engine, runner, 4)


@pytest.fixture(params=["memory", "postgres"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    ground: Ground = MemoryGround()
    if request.param == "postgres":
        ground = PostgresGround(request.getfixturevalue("database_url"))
    inventory = Inventory.model_construct(assets={"USDC": AssetEntry(symbol="USDC", decimals=6)})
    settings = Settings(database_url="postgresql://nowhere/qtg")
    yield Desk(Engine(ground.store, settings, inventory, ExecutorRegistry(), SignerRegistry(), ground.clock), ground)
    await ground.close()


async def killed_with_the_move_made(service: NodeService, desk: Desk, *, dispatcher_too: bool) -> str:
    """Dispatch a movement, kill the service when it has moved, and give the movement's id."""
    request_id = await begin(desk.engine, PLAN)
    service.holds_answers.touch()
    async with desk.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        dispatch = asyncio.create_task(dispatch_ready_nodes(desk.engine, runner, 1))
        await service.wait_for_moves(1)
        assert desk.state(request_id) == ("EXECUTING", "SUBMITTING")
        if dispatcher_too:
            dispatch.cancel()
        await service.kill()
        with contextlib.suppress(asyncio.CancelledError):
            assert await dispatch == 1
    service.holds_answers.unlink()
    return request_id


@pytest.mark.parametrize("dispatcher_too", [False, True], ids=["service", "service-and-dispatcher"])
async def test_recovery_finds_the_move_and_it_is_made_once(
    dispatcher_too: bool, desk: Desk, tmp_path: Path, connect: Connect
) -> None:
    async with node_service(tmp_path) as first:
        remote = connect(first.url, terms=Terms(submit_grace_seconds=0, signs=False))  # no test waits for a grace
        desk.engine.executors.register(KEY, remote)
        request_id = await killed_with_the_move_made(first, desk, dispatcher_too=dispatcher_too)
        assert desk.state(request_id) == ("EXECUTING", "SUBMITTING" if dispatcher_too else "UNKNOWN")
    assert await desk.recover() == 1
    assert desk.state(request_id) == ("EXECUTING", "UNKNOWN"), "a service that is away decides nothing"
    async with node_service(tmp_path, port=first.port) as second:
        assert await desk.recover() == 1
        assert desk.state(request_id) == ("COMPLETED", "COMPLETED")
        [row] = desk.ground.nodes(request_id)
        assert (row["evidence_to"], row["attempt_no"]) == ("COMPLETED", 1)
        assert [move["idempotency_key"] for move in second.book()] == list(row["things"])
