"""A provider whose book of moves is kept apart from anything the engine believes."""

# ruff: noqa: ARG002 - the contract names what a script does not read
from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    ResultStatus,
    SignedPayload,
    SignRequest,
)

Answer = ExecutionResult | Exception
Hook = Callable[[], Awaitable[None]]


def answer(status: ResultStatus, **rest: Any) -> ExecutionResult:
    """A result with some evidence."""
    return ExecutionResult(status=status, evidence=rest.pop("evidence", {"seen": "by the provider"}), **rest)


class ScriptedProvider:
    """Executes every submit it is asked for, and answers from a script; without one, it answers well."""

    def __init__(self) -> None:
        self.book: list[str] = []  # idempotency keys, in the order they were executed
        self.refused: set[str] = set()  # keys that were asked for and provably not executed
        self.calls: list[tuple[str, str]] = []  # (method, node key)
        self.contexts: list[ExecutionContext] = []  # of every preflight
        self.script: dict[tuple[str, str], deque[Answer | None]] = {}
        self.hooks: dict[tuple[str, str], Hook] = {}
        self.executes = True  # whether a submit whose answer is scripted has its effect
        self.prepared: dict[str, Any] = {}  # what the next prepared actions carry beside the usual
        self.expires_at: list[datetime | None] = []

    def will(self, method: str, node_key: str, *answers: Answer | None) -> None:
        """Let the next calls of a method for a node answer this; an exception is raised after executing."""
        self.script.setdefault((method, node_key), deque()).extend(answers)

    def during(self, method: str, node_key: str, hook: Hook) -> None:
        """Run something while the next call of a method for a node is on its way."""
        self.hooks[method, node_key] = hook

    async def scripted(self, method: str, node_key: str, otherwise: Answer | None) -> ExecutionResult | None:
        self.calls.append((method, node_key))
        hook = self.hooks.pop((method, node_key), None)
        if hook is not None:
            await hook()
        waiting = self.script.get((method, node_key))
        found = waiting.popleft() if waiting else otherwise
        if isinstance(found, Exception):
            raise found
        return found

    def count(self, method: str, node_key: str) -> int:
        return self.calls.count((method, node_key))


class ScriptedExecutor:
    """The six methods over a scripted provider."""

    def __init__(
        self, provider: ScriptedProvider, *, key: str | None = None, signed: bool = False, grace: float = 0.0
    ) -> None:
        self._provider = provider
        self._key = key
        self._signed = signed
        self.submit_grace_seconds = grace

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        return self._key

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        self._provider.contexts.append(context)
        return await self._provider.scripted("preflight", context.node_key, None)

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        await self._provider.scripted("prepare", context.node_key, None)
        action = PreparedAction.of(
            action_type=context.action_type,
            payload_format="scripted.v1",
            payload=canonical_json({"key": context.idempotency_key, "config": context.node_config}),
            signing_required=self._signed,
            expires_at=self._provider.expires_at.pop(0) if self._provider.expires_at else None,
        )
        return action.model_copy(update=self._provider.prepared)

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        script = self._provider.script.get(("submit", context.node_key))
        refused = bool(script) and isinstance(script[0], ExecutionResult) and script[0].status in _WITHOUT_EFFECT
        if refused or not self._provider.executes:
            self._provider.refused.add(context.idempotency_key)
        else:
            self._provider.book.append(context.idempotency_key)
        accepted = answer(ResultStatus.ACCEPTED, provider_refs={"reference": context.idempotency_key})
        found = await self._provider.scripted("submit", context.node_key, accepted)
        assert found is not None
        return found

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        found = await self._provider.scripted("observe", context.node_key, answer(ResultStatus.COMPLETED))
        assert found is not None
        return found

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        known = context.idempotency_key in self._provider.book
        found = await self._provider.scripted(
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


_WITHOUT_EFFECT = frozenset({ResultStatus.NOT_SENT, ResultStatus.REJECTED})


class ScriptedSigner:
    """Signs whatever it is asked, unless its script says otherwise."""

    signer_key = "signer.local.desk"

    def __init__(self, provider: ScriptedProvider) -> None:
        self._provider = provider
        self.requests: list[SignRequest] = []
        self.answers_for: str | None = None

    async def sign(self, request: SignRequest) -> SignedPayload:
        self.requests.append(request)
        await self._provider.scripted("sign", self.signer_key, None)
        return SignedPayload(
            payload_hash=self.answers_for or request.payload_hash,
            signed_payload="0xsigned",
            signer_key=self.signer_key,
            signer_address="0x" + "ab" * 20,
            provider_refs={"tx_hash": "0xfeed"},
        )

    async def health(self) -> HealthReport | None:
        return None
