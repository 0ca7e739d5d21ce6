"""A provider whose book of moves is kept apart from anything the engine believes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, HealthReport, PreparedAction, ResultStatus

Answer = ExecutionResult | Exception


def answer(status: ResultStatus, **rest: Any) -> ExecutionResult:
    """A result with some evidence."""
    return ExecutionResult(status=status, evidence=rest.pop("evidence", {"seen": "by the provider"}), **rest)


class ScriptedProvider:
    """Executes every submit it is asked for, and answers from a script; without one, it answers well."""

    def __init__(self) -> None:
        self.book: list[str] = []  # idempotency keys, in the order they were executed
        self.calls: list[tuple[str, str]] = []  # (method, node key)
        self.script: dict[tuple[str, str], deque[Answer | None]] = {}

    def will(self, method: str, node_key: str, *answers: Answer | None) -> None:
        """Let the next calls of a method for a node answer this; an exception is raised after executing."""
        self.script.setdefault((method, node_key), deque()).extend(answers)

    def scripted(self, method: str, node_key: str, otherwise: Answer | None) -> ExecutionResult | None:
        self.calls.append((method, node_key))
        waiting = self.script.get((method, node_key))
        found = waiting.popleft() if waiting else otherwise
        if isinstance(found, Exception):
            raise found
        return found

    def count(self, method: str, node_key: str) -> int:
        return self.calls.count((method, node_key))


class ScriptedExecutor:
    """The six methods over a scripted provider."""

    submit_grace_seconds = 0.0

    def __init__(self, provider: ScriptedProvider, *, key: str | None = None) -> None:
        self._provider = provider
        self._key = key

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        return self._key

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        return self._provider.scripted("preflight", context.node_key, None)

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        self._provider.scripted("prepare", context.node_key, None)
        return PreparedAction.of(
            action_type=context.action_type,
            payload_format="scripted.v1",
            payload=canonical_json({"key": context.idempotency_key, "config": context.node_config}),
        )

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        self._provider.book.append(context.idempotency_key)
        accepted = answer(ResultStatus.ACCEPTED, provider_refs={"reference": context.idempotency_key})
        found = self._provider.scripted("submit", context.node_key, accepted)
        assert found is not None
        return found

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        found = self._provider.scripted("observe", context.node_key, answer(ResultStatus.COMPLETED))
        assert found is not None
        return found

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        known = context.idempotency_key in self._provider.book
        found = self._provider.scripted(
            "recover",
            context.node_key,
            answer(ResultStatus.ACCEPTED, provider_refs={"reference": context.idempotency_key})
            if known
            else answer(ResultStatus.UNKNOWN),
        )
        assert found is not None
        return found

    async def health(self) -> HealthReport | None:
        return None
