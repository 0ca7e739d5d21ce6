"""Each store behind the engine's port, with an engine over it and hands that pass by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.journal import AttemptOutcome, StepKind
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.states import NodeState
from qtg_dagster.domain.work import Claim, Intent, Move, Work
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Runner, Store
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import AssetEntry, Inventory
from qtg_dagster.settings import Settings
from tests.engine import plans
from tests.engine.grounds import Ground, MemoryGround, PostgresGround, Row
from tests.engine.provider import ScriptedExecutor, ScriptedProvider

IDENTITY = RunnerIdentity("dispatch", "sandbox")


@dataclass
class Bench:
    """One store, two runners that live, and movements of one's choice."""

    ground: Ground
    engine: Engine
    one: Runner
    two: Runner

    @property
    def store(self) -> Store:
        return self.ground.store

    async def begin(self, plan: Plan) -> str:
        return await plans.begin(self.engine, plan)

    def nodes(self, request_id: str) -> dict[str, Row]:
        return {row["node_key"]: row for row in self.ground.nodes(request_id)}

    def states(self, request_id: str) -> dict[str, str]:
        return {key: row["node_state"] for key, row in self.nodes(request_id).items()}

    async def ready(self, runner: Runner | None = None, batch: int = 9) -> list[Work]:
        """The works of the READY nodes that a runner can claim."""
        return await self.store.load_works(await self.store.claim_ready(runner or self.one, batch))

    async def due(self, runner: Runner | None = None, batch: int = 9) -> list[Work]:
        return await self.store.load_works(await self.store.claim_due_observations(runner or self.one, batch))

    async def intend(self, work: Work) -> Work:
        """Write the intent of a work."""
        assert await self.store.record_intents([(work, intent_of(work))]) == [True]
        return work.in_state(NodeState.SUBMITTING)

    async def write(self, work: Work, move: Move) -> Advance:
        [found] = await self.store.record_moves([(work, move)])
        assert isinstance(found, Advance)
        return found

    async def submitted(self, plan: Plan) -> tuple[str, list[Work]]:
        """A movement whose first nodes are SUBMITTED and due, and their works as they were."""
        request_id = await self.begin(plan)
        works = [await self.intend(work) for work in await self.ready()]
        for work in works:
            await self.write(work, ACCEPTED)
        return request_id, works


ACCEPTED = Move(NodeState.SUBMITTED, StepKind.OUTCOME, {"seen": "it"}, attempt_outcome=AttemptOutcome.ACCEPTED)
COMPLETED = Move(NodeState.COMPLETED, StepKind.OBSERVED, {"seen": "it"}, attempt_outcome=AttemptOutcome.COMPLETED)
FAILED = Move(NodeState.FAILED, StepKind.OBSERVED, {"seen": "it"}, attempt_outcome=AttemptOutcome.FAILED)
UNKNOWN = Move(NodeState.UNKNOWN, StepKind.OUTCOME, {"lost": "the answer"}, attempt_outcome=AttemptOutcome.UNKNOWN)
DEFERRED = Move(NodeState.READY, StepKind.DEFERRED, {"not": "now"}, error_code="NOT_NOW", look_after=60.0)


def intent_of(work: Work) -> Intent:
    key = f"{work.claim.node_id}:{work.attempt_no + 1}"
    prepared = PreparedAction.of(action_type="move", payload_format="x", payload="{}", provider_refs={"client": key})
    return Intent(prepared, work.attempt_no + 1, key)


def ids(claims: list[Claim]) -> list[str]:
    return [claim.node_id for claim in claims]


@pytest.fixture(params=["memory", "postgresql"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """The store of each kind, empty."""
    if request.param == "memory":
        ground: Ground = MemoryGround()
    else:
        ground = PostgresGround(request.getfixturevalue("database_url"))
    executors = ExecutorRegistry()
    provider = ScriptedProvider()
    executors.register("exec.local.move", ScriptedExecutor(provider))
    executors.register("exec.local.watch", ScriptedExecutor(provider))
    executors.register("exec.local.keyed", ScriptedExecutor(provider, key="one-at-a-time"))
    executors.register("exec.cex.send", ScriptedExecutor(provider))
    inventory = Inventory.model_construct(assets={"USDC": AssetEntry(symbol="USDC", decimals=6)}, accounts={})
    settings = Settings(database_url="postgresql://nowhere/qtg")
    engine = Engine(ground.store, settings, inventory, executors, SignerRegistry(), ground.clock)
    async with ground.store.runner(IDENTITY) as one, ground.store.runner(IDENTITY) as two:
        yield Bench(ground, engine, one, two)
    await ground.close()
