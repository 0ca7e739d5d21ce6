"""Shipped executors with one thing spoilt each: what their benches must find."""

from __future__ import annotations

from typing import Any

from qtg_dagster.domain.contract import ExecutionResult, ResultStatus


class Wrapped:
    """A shipped executor with one thing spoilt."""

    def __init__(self, right: Any) -> None:
        self.right = right

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)


class SubmitsTwice(Wrapped):
    async def submit(self, *asked: Any) -> ExecutionResult:
        await self.right.submit(*asked)
        self.right._submitted.clear()
        answer: ExecutionResult = await self.right.submit(*asked)
        return answer


class LostIsNotSent(Wrapped):
    async def submit(self, *asked: Any) -> ExecutionResult:
        return _spoilt(await self.right.submit(*asked), ResultStatus.NOT_SENT)


class UnknownIsFailed(Wrapped):
    async def recover(self, *asked: Any) -> ExecutionResult:
        return _spoilt(await self.right.recover(*asked), ResultStatus.FAILED)


class NeverFinds(Wrapped):
    async def recover(self, *asked: Any) -> ExecutionResult:
        answer: ExecutionResult = await self.right.recover(*asked)
        return answer.model_copy(update={"status": ResultStatus.UNKNOWN})


def _spoilt(answer: ExecutionResult, status: ResultStatus) -> ExecutionResult:
    unknown = answer.status is ResultStatus.UNKNOWN
    return answer.model_copy(update={"status": status}) if unknown else answer
