"""A provider that answers at once, and plans over it: what is left is what the engine itself costs."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, HealthReport, PreparedAction, ResultStatus
from qtg_dagster.domain.plans import NodeKind, Plan, PlanEdge, PlanNode
from qtg_dagster.engine.parts import Engine
from qtg_dagster.executors.registry import ExecutorRegistry, SignerRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore

EXECUTOR_KEY = "exec.bench.instant"


class InstantExecutor:
    """Executes in memory; notes when it was called on the machine's monotonic clock, which processes share."""

    submit_grace_seconds = 1.0

    def __init__(self, latency_seconds: float = 0.0) -> None:
        self._latency = latency_seconds
        self.submitted: Counter[str] = Counter()
        self.observed = 0
        self.first_call: dict[str, float] = {}

    async def preflight(self, context: ExecutionContext) -> None:
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        payload = canonical_json({"key": context.idempotency_key})
        return PreparedAction.of(action_type=context.action_type, payload_format="bench.v1", payload=payload)

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        now = time.monotonic()
        called_at = str(now)
        self.submitted[context.request_node_id] += 1
        self.first_call.setdefault(context.request_id, now)
        if self._latency:
            await asyncio.sleep(self._latency)
        refs = {"reference": context.idempotency_key, "called_at": called_at}
        return ExecutionResult(
            status=ResultStatus.ACCEPTED, provider_refs=refs, evidence={"id": context.idempotency_key}
        )

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        self.observed += 1
        if self._latency:
            await asyncio.sleep(self._latency)
        refs = {"completed_at": str(time.monotonic())}
        return ExecutionResult(status=ResultStatus.COMPLETED, provider_refs=refs, evidence={"seen": True})

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        return ExecutionResult(status=ResultStatus.ACCEPTED, evidence={"id": context.idempotency_key})

    async def health(self) -> HealthReport | None:
        return None


def chain_of(length: int) -> Plan:
    """A plan of `length` actions, one after another."""
    keys = [f"step_{place}" for place in range(1, length + 1)]
    return Plan(
        template_key=f"bench_chain_{length}",
        title=f"{length} instant actions in a row",
        nodes=tuple(
            PlanNode(node_key=key, node_kind=NodeKind.ACTION, action_type="instant", executor_key=EXECUTOR_KEY)
            for key in keys
        ),
        edges=tuple(PlanEdge(from_node=a, to_node=b) for a, b in itertools.pairwise(keys)),
    )


@asynccontextmanager
async def open_engine(
    url: str,
    *,
    latency_seconds: float = 0.0,
    pool_size: int = 10,
    executor: InstantExecutor | None = None,
    **settings_given: Any,
) -> AsyncIterator[Engine]:
    """An engine whose only executor is the instant one, or one made from it."""
    database = Database(url, pool_size=pool_size)
    executors = ExecutorRegistry()
    executors.register(EXECUTOR_KEY, executor or InstantExecutor(latency_seconds))
    given = {"drain_linger_seconds": 3600, "drain_budget_seconds": 3600, **settings_given}
    settings = Settings(database_url=url, **given)
    try:
        yield Engine(PostgresStore(database), settings, Inventory(), executors, SignerRegistry())
    finally:
        await database.close()
