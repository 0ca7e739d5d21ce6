"""A provider in memory with a book of its own, an executor over it that keeps the contract, and their bench."""

# ruff: noqa: ARG002 - the contract names what some executors do not read
from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    HealthState,
    PreparedAction,
    ResultStatus,
    payload_hash,
)
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance import Declared, Knob, Limits

SECRET = "canary-in-memory-0123456789"
LIMITS = Limits(call_seconds=5, health_seconds=0.3, looks=6, between_looks_seconds=0.001)
_HEALTH_SECONDS = 0.05


class NoConnection(OSError):
    """Nobody took the connection: nothing was sent."""


class NoReply(OSError):
    """The request left, and no reply came."""


class Provider:
    """Executes whatever it is asked for, as often as it is asked, and writes it into its book."""

    def __init__(self) -> None:
        self.book: list[str] = []
        self.states: dict[str, str] = {}
        self.turned: set[Knob] = set()

    async def execute(self, key: str) -> None:
        """One effect; raises `NoConnection` or `NoReply`."""
        await self.ping()
        if self._once(Knob.LOSE_REQUEST):
            raise NoReply("the request was lost")
        self.book.append(key)
        self.states.setdefault(key, "pending")
        if self._once(Knob.LOSE_REPLY):
            raise NoReply("the reply was lost")

    async def find(self, key: str) -> str | None:
        """The state of an action: pending, done, returned, or something new; None when there is none."""
        await self.ping()
        return self.states.get(key)

    async def ping(self) -> None:
        """Raises `NoConnection`; for ever without an answer while silent."""
        if Knob.AWAY in self.turned:
            raise NoConnection("nobody answers")
        if Knob.SILENT in self.turned:
            await asyncio.Event().wait()

    def _once(self, knob: Knob) -> bool:
        if knob not in self.turned:
            return False
        self.turned.remove(knob)
        return True


class RightExecutor:
    """Keeps every clause. Its parts are methods so that a wrong one can differ in one of them."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        try:
            await self.provider.ping()
        except OSError as away:
            return self.say(ResultStatus.NOT_SENT, "AWAY", away)
        return None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        payload = self.payload(context)
        return PreparedAction(
            action_type=context.action_type,
            payload_format="memory.v1",
            payload=payload,
            payload_hash=self.hash(payload),
            expires_at=datetime.now(UTC) + timedelta(minutes=1),
        )

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        if self.is_expired(prepared):
            return self.say(ResultStatus.NOT_SENT, "EXPIRED", "prepare it again")
        if self.is_changed(prepared):
            return self.say(ResultStatus.REJECTED, "CHANGED", "the payload does not match its hash")
        self.check(context)
        key = str(json.loads(prepared.payload)["key"])
        try:
            return await self.send(key)
        except NoConnection as away:
            return self.say(ResultStatus.NOT_SENT, "AWAY", away)
        except NoReply as lost:
            return await self.lost(key, lost)

    async def send(self, key: str) -> ExecutionResult:
        await self.provider.execute(key)
        return self.say(ResultStatus.ACCEPTED, refs={"reference": key})

    async def lost(self, key: str, problem: Exception) -> ExecutionResult:
        return self.say(ResultStatus.UNKNOWN, "NO_REPLY", problem)

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        self.check(context)
        try:
            return self.judge(await self.provider.find(context.idempotency_key), context)
        except OSError as away:
            return self.say(ResultStatus.OBSERVING, "AWAY", away)

    def judge(self, state: str | None, context: ExecutionContext) -> ExecutionResult:
        if state == "done":
            return self.say(ResultStatus.COMPLETED, seen=state)
        if state == "returned":
            return self.say(ResultStatus.FAILED, "RETURNED", seen=state)
        return self.under_way(state)

    def under_way(self, state: str | None) -> ExecutionResult:
        return self.say(ResultStatus.OBSERVING, None if state == "pending" else "ODD_STATUS", seen=str(state))

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        self.check(context)
        try:
            state = await self.provider.find(context.idempotency_key)
        except OSError as away:
            return self.say(ResultStatus.UNKNOWN, "AWAY", away)
        return await self.absent(context) if state is None else await self.found(context, state)

    async def found(self, context: ExecutionContext, state: str) -> ExecutionResult:
        seen = self.judge(state, context)
        return seen.model_copy(update={"status": ResultStatus.ACCEPTED}) if seen.status is _OBSERVING else seen

    async def absent(self, context: ExecutionContext) -> ExecutionResult:
        return self.say(ResultStatus.UNKNOWN, "NOT_ON_RECORD", "not found proves nothing")

    async def health(self) -> HealthReport | None:
        try:
            await asyncio.wait_for(self.provider.ping(), _HEALTH_SECONDS)
        except (OSError, TimeoutError) as away:
            return HealthReport(health_state=HealthState.DOWN, detail=type(away).__name__)
        return HealthReport(health_state=HealthState.HEALTHY)

    def payload(self, context: ExecutionContext) -> str:
        self.check(context)
        return canonical_json({"key": context.idempotency_key, "amount": context.node_config["amount"]})

    def hash(self, payload: str) -> str:
        return payload_hash(payload)

    def check(self, context: ExecutionContext) -> None:
        if "amount" not in context.node_config:
            raise InvalidInput("config.amount", "is missing", "Give an amount.")

    def is_expired(self, prepared: PreparedAction) -> bool:
        return prepared.expires_at is not None and prepared.expires_at <= datetime.now(UTC)

    def is_changed(self, prepared: PreparedAction) -> bool:
        return self.hash(prepared.payload) != prepared.payload_hash

    def say(
        self,
        status: ResultStatus,
        code: str | None = None,
        problem: object = None,
        *,
        seen: str | None = None,
        refs: dict[str, Any] | None = None,
    ) -> ExecutionResult:
        return ExecutionResult(
            status=status,
            error_code=code,
            error_message=None if problem is None else str(problem),
            provider_refs=refs or {},
            evidence={"seen": seen or str(problem or status)},
        )


_OBSERVING = ResultStatus.OBSERVING
_STATES = {Knob.ODD_STATUS: "reviewing", Knob.SETTLE: "done", Knob.FAIL: "returned"}


class MemoryBench:
    """All knobs there are."""

    def __init__(self, executor_type: type[RightExecutor] = RightExecutor) -> None:
        self.provider = Provider()
        self.executor: Any = executor_type(self.provider)
        self.declared = Declared(varies=frozenset({"expires_at"}))
        self.knobs = frozenset(Knob)
        self.canaries: tuple[str, ...] = (SECRET,)
        self._numbers = itertools.count(1)

    async def context(self) -> ExecutionContext:
        return order(next(self._numbers), {"amount": "12.5"})

    async def effects(self, idempotency_key: str | None) -> int:
        if idempotency_key is None:
            return len(self.provider.book)
        return self.provider.book.count(idempotency_key)

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        raise AssertionError("nothing here is signed")

    def session(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext(object())

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        if knob in _STATES:
            self.set_state(knob, context.idempotency_key)
        else:
            self.provider.turned.add(knob)

    def set_state(self, knob: Knob, idempotency_key: str) -> None:
        """What the provider shows of an action from now on."""
        self.provider.states[idempotency_key] = _STATES[knob]

    async def calm(self) -> None:
        self.provider.turned.clear()


@asynccontextmanager
async def open_memory_bench(key: str) -> AsyncIterator[MemoryBench]:
    """As the command line opens a bench."""
    yield MemoryBench()


def order(number: int, config: dict[str, Any], **fields: Any) -> ExecutionContext:
    """A work order with a key of its own."""
    plain: dict[str, Any] = {
        "request_id": "22222222-2222-2222-2222-222222222222",
        "request_node_id": f"11111111-1111-1111-1111-{number:012d}",
        "compiled_plan_hash": "0" * 64,
        "template_key": "conformance",
        "template_version": 1,
        "node_key": "act",
        "node_kind": "action",
        "action_type": "conformance",
        "attempt_no": 1,
        "intent": {},
        "input_params": {},
        "resolved_bindings": {},
        "risk_controls": {},
        "node_config": config,
        "provider_context": {},
        "idempotency_key": f"{number:032x}",
    }
    return ExecutionContext.model_validate(plain | fields)
