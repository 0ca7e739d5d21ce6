"""Executors that go wrong in how they say it, or in what they ask for."""

# ruff: noqa: ARG002 - the contract names what some executors do not read
from __future__ import annotations

import asyncio
from decimal import Decimal

from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    HealthState,
    PreparedAction,
    ResultStatus,
)
from tests.executors.conformance.memory import SECRET, NoConnection, RightExecutor

S = ResultStatus


class HealthOfAnOrder(RightExecutor):
    async def health(self, context: ExecutionContext | None = None) -> HealthReport | None:
        return await super().health()


class HealthWaits(RightExecutor):
    async def health(self) -> HealthReport | None:
        try:
            await self.provider.ping()
        except OSError:
            return HealthReport(health_state=HealthState.DOWN)
        return HealthReport(health_state=HealthState.HEALTHY)


class AlwaysHealthy(RightExecutor):
    async def health(self) -> HealthReport | None:
        await super().health()
        return HealthReport(health_state=HealthState.HEALTHY)


class HealthRaises(RightExecutor):
    async def health(self) -> HealthReport | None:
        await asyncio.wait_for(self.provider.ping(), 0.05)
        return HealthReport(health_state=HealthState.HEALTHY)


class LetsLibraryErrorsOut(RightExecutor):
    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        self.check(context)
        return self.judge(await self.provider.find(context.idempotency_key), context)


class SaysNoCode(RightExecutor):
    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        answer = await super().recover(context, session)
        return answer.model_copy(update={"error_code": None})


class TrustsItsConfig(RightExecutor):
    """A KeyError for a template's mistake."""

    def check(self, context: ExecutionContext) -> None:
        context.node_config["amount"]


class GivesNoEvidence(RightExecutor):
    def judge(self, state: str | None, context: ExecutionContext) -> ExecutionResult:
        seen = super().judge(state, context)
        return seen.model_copy(update={"evidence": {}}) if seen.status is S.COMPLETED else seen


class NotSentWithoutEvidence(RightExecutor):
    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        answer = await super().submit(context, prepared, session)
        return answer.model_copy(update={"evidence": {}}) if answer.status is S.NOT_SENT else answer


class EvidenceWithDecimals(RightExecutor):
    def under_way(self, state: str | None) -> ExecutionResult:
        return super().under_way(state).model_copy(update={"evidence": {"amount": Decimal("12.5")}})


class ShowsItsKey(RightExecutor):
    """The URL it asked, key and all, in the evidence of an outage."""

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        seen = await super().observe(context)
        url = f"https://provider.example/status?key={SECRET}"
        return seen.model_copy(update={"evidence": {"url": url}}) if seen.error_code == "AWAY" else seen


class ErrorShowsItsKey(RightExecutor):
    async def health(self) -> HealthReport | None:
        report = await super().health()
        assert report is not None
        return report.model_copy(update={"detail": f"asked with {SECRET}"})


class WantsASession(RightExecutor):
    async def submit(self, context: ExecutionContext, prepared: PreparedAction, session: object) -> ExecutionResult:
        return await super().submit(context, prepared, session)


class LocksTheSession(RightExecutor):
    """Works with no session as long as it is told so."""

    async def recover(self, context: ExecutionContext, session: object = NoConnection) -> ExecutionResult:
        if session is NoConnection:
            raise AttributeError("session has no attribute 'execute'")
        return await super().recover(context, session)
