"""Executors that break exactly one clause each."""

# ruff: noqa: ARG002 - the contract names what some executors do not read
from __future__ import annotations

import asyncio
import uuid
from decimal import Decimal
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
from qtg_dagster.executors.conformance import Clause
from tests.executors.conformance.memory import SECRET, NoConnection, RightExecutor

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


class FindsFailure(RightExecutor):
    async def found(self, context: ExecutionContext, state: str) -> ExecutionResult:
        lost = "reference" not in context.node_refs
        return self.say(S.FAILED, "TIMED_OUT") if lost else await super().found(context, state)


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


_C = Clause
WRONG: dict[type[RightExecutor], Clause] = {
    ProbesWithMoney: _C.PREFLIGHT_NO_EFFECT,
    PreflightCompletes: _C.PREFLIGHT_NO_EFFECT,
    RefusesDuringOutage: _C.PREFLIGHT_NOT_NOW,
    ReservesByPaying: _C.PREPARE_NO_EFFECT,
    PreparesAnew: _C.PREPARE_REPEATABLE,
    HashesSomethingElse: _C.PREPARE_HASH,
    SignsItself: _C.PREPARE_HASH,
    SendsAgain: _C.SUBMIT_ONCE,
    RecoversByRepeating: _C.SUBMIT_ONCE,
    SplitsInTwo: _C.SUBMIT_ONCE,
    SubmitObserves: _C.SUBMIT_ANSWERS,
    LostIsNotSent: _C.SUBMIT_LOST_REPLY,
    LostRequestIsRejected: _C.SUBMIT_LOST_REPLY,
    SendsExpired: _C.SUBMIT_EXPIRED,
    SendsChanged: _C.SUBMIT_CHANGED,
    PaysForLooking: _C.OBSERVE_NO_EFFECT,
    ChangesItsMind: _C.OBSERVE_SAME_ANSWER,
    GoesBack: _C.OBSERVE_MONOTONE,
    GoesBackFromFailed: _C.OBSERVE_MONOTONE,
    ObserveRejects: _C.LOOK_ANSWERS,
    RecoverNotSent: _C.LOOK_ANSWERS,
    OddIsFailed: _C.LOOK_ODD_STATUS,
    OddIsDone: _C.LOOK_ODD_STATUS,
    SendsWhatIsAbsent: _C.RECOVER_NO_EFFECT,
    AbsentIsFailed: _C.RECOVER_ABSENCE,
    AbsentIsDone: _C.RECOVER_ABSENCE,
    AbsentIsAccepted: _C.RECOVER_ABSENCE,
    NeverFinds: _C.RECOVER_FINDS,
    FindsFailure: _C.RECOVER_FINDS,
    HealthOfAnOrder: _C.HEALTH_NO_CONTEXT,
    HealthWaits: _C.HEALTH_IN_TIME,
    AlwaysHealthy: _C.HEALTH_TELLS_DOWN,
    HealthRaises: _C.HEALTH_TELLS_DOWN,
    LetsLibraryErrorsOut: _C.ERRORS_TYPED,
    SaysNoCode: _C.ERRORS_TYPED,
    TrustsItsConfig: _C.ERRORS_TYPED,
    GivesNoEvidence: _C.EVIDENCE_GIVEN,
    NotSentWithoutEvidence: _C.EVIDENCE_GIVEN,
    EvidenceWithDecimals: _C.EVIDENCE_JSON,
    ShowsItsKey: _C.EVIDENCE_NO_SECRETS,
    ErrorShowsItsKey: _C.EVIDENCE_NO_SECRETS,
    WantsASession: _C.SESSION_NONE,
    LocksTheSession: _C.SESSION_NONE,
}
