"""A code location of QTG whose money moves nowhere: executors of the tests' own beside the lanes'."""

import asyncio
import os
from pathlib import Path
from typing import Any

from qtg_dagster.definitions import build_definitions
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    HealthState,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import load_settings
from resources import ExecutorsResource, ResourceSet

GATE_VARIABLE = "QTG_TEST_GATE"


def _result(status: ResultStatus, **refs: Any) -> ExecutionResult:
    return ExecutionResult(status=status, provider_refs=refs, evidence={"seen": "by the tests' provider"})


class LocalExecutor:
    """Accepts and completes everything. With a gate folder, a submit says that it began and waits for leave to end."""

    submit_grace_seconds = 0.0

    def __init__(self, gate: str = "", health: HealthReport | None = None) -> None:
        self._gate = Path(gate) if gate else None
        self._health = health

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:  # noqa: ARG002
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        return PreparedAction.of(
            action_type=context.action_type, payload_format="local.v1", payload=context.idempotency_key
        )

    async def submit(
        self,
        context: ExecutionContext,
        prepared: PreparedAction,  # noqa: ARG002
        session: object = None,  # noqa: ARG002
    ) -> ExecutionResult:
        if self._gate is not None:
            (self._gate / "begun").touch()
            while not (self._gate / "go").exists():  # noqa: ASYNC110 - another process opens the gate
                await asyncio.sleep(0.02)
        return _result(ResultStatus.ACCEPTED, reference=context.idempotency_key)

    async def observe(self, context: ExecutionContext) -> ExecutionResult:  # noqa: ARG002
        return _result(ResultStatus.COMPLETED)

    async def recover(
        self,
        context: ExecutionContext,  # noqa: ARG002
        session: object = None,  # noqa: ARG002
    ) -> ExecutionResult:
        return _result(ResultStatus.UNKNOWN)

    async def health(self) -> HealthReport | None:
        return self._health


class LocalExecutors(ExecutorsResource):
    """The lanes' executors, and `exec.local.move`, `exec.local.watch` and a broken one beside them."""

    gate: str = ""

    def register_more(self, executors: ExecutorRegistry, inventory: Inventory) -> None:  # noqa: ARG002
        executors.register("exec.local.move", LocalExecutor(self.gate))
        executors.register("exec.local.watch", LocalExecutor())
        broken = HealthReport(health_state=HealthState.DOWN, detail="unplugged")
        executors.register("exec.local.broken", LocalExecutor(health=broken))


resources = ResourceSet.wired(LocalExecutors(gate=os.environ.get(GATE_VARIABLE, "")))
defs = build_definitions(load_settings(), resources)
