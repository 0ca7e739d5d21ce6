"""Executors that go wrong before or while they act."""

# ruff: noqa: ARG002 - the contract names what some executors do not read
from __future__ import annotations

import uuid

from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    PreparedAction,
    ResultStatus,
    payload_hash,
)
from tests.executors.conformance.memory import RightExecutor

S = ResultStatus


class ProbesWithMoney(RightExecutor):
    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        answer = await super().preflight(context)
        if answer is None:
            self.provider.book.append("a test withdrawal")
        return answer


class PreflightCompletes(RightExecutor):
    """Answers COMPLETED to whoever asks a second time."""

    asked: str | None = None

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        again, self.asked = self.asked == context.idempotency_key, context.idempotency_key
        return self.say(S.COMPLETED) if again and not self.provider.turned else await super().preflight(context)


class RefusesDuringOutage(RightExecutor):
    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        answer = await super().preflight(context)
        return answer and answer.model_copy(update={"status": S.REJECTED})


class ReservesByPaying(RightExecutor):
    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        self.provider.book.append("a deposit on the fee")
        return await super().prepare(context)


class PreparesAnew(RightExecutor):
    def payload(self, context: ExecutionContext) -> str:
        self.check(context)
        return canonical_json({"key": context.idempotency_key, "id": uuid.uuid4().hex})


class HashesSomethingElse(RightExecutor):
    def hash(self, payload: str) -> str:
        return payload_hash("v1:" + payload)


class SignsItself(RightExecutor):
    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        return (await super().prepare(context)).model_copy(update={"signed_payload": "0x00"})


class SendsAgain(RightExecutor):
    async def lost(self, key: str, problem: Exception) -> ExecutionResult:
        if key in self.provider.book:
            await self.send(key)
        return await super().lost(key, problem)


class RecoversByRepeating(RightExecutor):
    async def found(self, context: ExecutionContext, state: str) -> ExecutionResult:
        await self.send(context.idempotency_key)
        return await super().found(context, state)


class SplitsInTwo(RightExecutor):
    async def send(self, key: str) -> ExecutionResult:
        answer = await super().send(key)
        self.provider.book.append("the other half")
        return answer


class SubmitObserves(RightExecutor):
    async def send(self, key: str) -> ExecutionResult:
        return (await super().send(key)).model_copy(update={"status": S.OBSERVING})


class LostIsNotSent(RightExecutor):
    async def lost(self, key: str, problem: Exception) -> ExecutionResult:
        return self.say(S.NOT_SENT, "NO_REPLY", problem)


class LostRequestIsRejected(RightExecutor):
    async def lost(self, key: str, problem: Exception) -> ExecutionResult:
        known = key in self.provider.book
        return self.say(S.UNKNOWN if known else S.REJECTED, "NO_REPLY", problem)


class SendsExpired(RightExecutor):
    def is_expired(self, prepared: PreparedAction) -> bool:
        return False


class SendsChanged(RightExecutor):
    def is_changed(self, prepared: PreparedAction) -> bool:
        return False
