"""Executors that go wrong when they look at what became of an action."""

# ruff: noqa: ARG002 - the contract names what some executors do not read
from __future__ import annotations

from typing import Any

from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    ResultStatus,
)
from tests.executors.conformance.memory import RightExecutor

S = ResultStatus


class PaysForLooking(RightExecutor):
    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        self.provider.book.append("a fee for looking")
        return await super().observe(context)


class ChangesItsMind(RightExecutor):
    looks = 0

    def under_way(self, state: str | None) -> ExecutionResult:
        self.looks += 1
        return self.say(S.OBSERVING if self.looks % 2 else S.UNKNOWN, "UNDER_WAY", seen=str(state))


class GoesBack(RightExecutor):
    """Takes what it said last for the present, once."""

    back_from = S.COMPLETED

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._said: set[str] = set()

    def judge(self, state: str | None, context: ExecutionContext) -> ExecutionResult:
        seen = super().judge(state, context)
        if seen.status is not self.back_from:
            return seen
        if context.idempotency_key in self._said:
            return self.under_way("pending")
        self._said.add(context.idempotency_key)
        return seen


class GoesBackFromFailed(GoesBack):
    back_from = S.FAILED


class ObserveRejects(RightExecutor):
    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        seen = await super().observe(context)
        under_way = seen.status is S.OBSERVING and seen.error_code is None
        return self.say(S.REJECTED, "UNDER_WAY") if under_way else seen


class RecoverNotSent(RightExecutor):
    async def found(self, context: ExecutionContext, state: str) -> ExecutionResult:
        lost = "reference" not in context.node_refs
        return await super().found(context, state) if lost or state != "pending" else self.say(S.NOT_SENT, "AGAIN")


class OddIsFailed(RightExecutor):
    odd = S.FAILED

    def under_way(self, state: str | None) -> ExecutionResult:
        return self.say(self.odd, "ODD", seen=state) if state == "reviewing" else super().under_way(state)


class OddIsDone(OddIsFailed):
    odd = S.COMPLETED


class SendsWhatIsAbsent(RightExecutor):
    async def absent(self, context: ExecutionContext) -> ExecutionResult:
        await self.send(context.idempotency_key)
        return await super().absent(context)


class AbsentIsFailed(RightExecutor):
    says = S.FAILED

    async def absent(self, context: ExecutionContext) -> ExecutionResult:
        return self.say(self.says, "NOT_FOUND")


class AbsentIsDone(AbsentIsFailed):
    says = S.COMPLETED


class AbsentIsAccepted(AbsentIsFailed):
    says = S.ACCEPTED


class NeverFinds(RightExecutor):
    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        self.check(context)
        return self.say(S.UNKNOWN, "ASK_A_PERSON")


class HandsOver(NeverFinds):
    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        said = await super().recover(context, session)
        return said.model_copy(update={"evidence": {**said.evidence, "operator": "1 row may be this one: look"}})


class FindsFailure(RightExecutor):
    async def found(self, context: ExecutionContext, state: str) -> ExecutionResult:
        lost = "reference" not in context.node_refs
        return self.say(S.FAILED, "TIMED_OUT") if lost else await super().found(context, state)
