"""An executor that is asked over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from qtg_dagster.domain.clock import Clock
from qtg_dagster.domain.contract import (
    PROTOCOL_VERSION,
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    HealthState,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.domain.errors import InvalidInput, RemoteFault
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.executors.addresses import ServiceAddress
from qtg_dagster.executors.calling import MOST_ANSWER_BYTES, Answered, Outcome, ServiceCaller
from qtg_dagster.executors.remote.answers import answered, document, result
from qtg_dagster.executors.remote.documents import (
    ContextRequest,
    Description,
    HealthAnswer,
    Method,
    PreparedAnswer,
    SubmitRequest,
)
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.secret import Secret

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


class Timeouts(Frozen):
    """Seconds until the whole answer of a method must have come."""

    preflight: float = Field(default=10, gt=0)
    prepare: float = Field(default=15, gt=0)
    submit: float = Field(default=30, gt=0)
    observe: float = Field(default=15, gt=0)
    recover: float = Field(default=30, gt=0)
    health: float = Field(default=6, gt=0)  # longer than a lane waits for its provider: it must tell whose silence


class RemoteExecutor:
    """The six methods by HTTP JSON. `close` it at the end.

    A submit whose answer is not wholly right is UNKNOWN, or NOT_SENT where that is proven. The other methods raise
    `RemoteFault`, which leaves a node where it is.
    """

    def __init__(
        self,
        key: str,
        url: str,
        secret: Secret,
        *,
        terms: Terms | None = None,
        ca_file: Path | None = None,
        timeouts: Timeouts | None = None,
        most_answer_bytes: int = MOST_ANSWER_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """Raises `ConfigurationError` for an address or secret that is not fit."""
        address = ServiceAddress.read(url, ca_file=ca_file, field=f"executors.{key}.url")
        self._key = key
        self._terms = terms or Terms()
        self._timeouts = timeouts or Timeouts()
        self._caller = ServiceCaller(address, secret, clock=clock, most_answer_bytes=most_answer_bytes)

    async def close(self) -> None:
        """Close what is open."""
        await self._caller.close()

    @property
    def submit_grace_seconds(self) -> float:
        return self._terms.submit_grace_seconds

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - the same for every node
        return self._terms.serialization_key

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        answer = answered(await self._ask(Method.PREFLIGHT, context))
        return None if answer.status == 204 else result(answer, Method.PREFLIGHT)

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        answer = answered(await self._ask(Method.PREPARE, context))
        prepared = document(answer, PreparedAnswer).prepared
        if self._terms.signs not in (None, prepared.signing_required):
            said = f"signing_required is {prepared.signing_required}; the entry's `signs` says otherwise"
            raise RemoteFault("WRONG_TERMS", said, answer.evidence)
        return prepared

    async def submit(
        self,
        context: ExecutionContext,
        prepared: PreparedAction,
        session: AsyncSession | None = None,  # noqa: ARG002 - it cannot leave this process
    ) -> ExecutionResult:
        """Ask once. Whatever cannot be believed is UNKNOWN, with what was seen as evidence."""
        try:
            return result(answered(await self._ask(Method.SUBMIT, context, prepared)), Method.SUBMIT)
        except RemoteFault as fault:
            status = ResultStatus.NOT_SENT if fault.nothing_done else ResultStatus.UNKNOWN
            return _without_answer(status, fault.code, fault.problem, fault.evidence)
        except InvalidInput as refused:
            return _without_answer(ResultStatus.NOT_SENT, "INVALID_INPUT", str(refused), {"refused": refused.field})

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        return result(answered(await self._ask(Method.OBSERVE, context)), Method.OBSERVE)

    async def recover(
        self,
        context: ExecutionContext,
        session: AsyncSession | None = None,  # noqa: ARG002 - it cannot leave this process
    ) -> ExecutionResult:
        return result(answered(await self._ask(Method.RECOVER, context)), Method.RECOVER)

    async def health(self) -> HealthReport:
        """DOWN when the service gives no right answer, DEGRADED when it describes itself other than the inventory."""
        try:
            health, described = await asyncio.gather(self._look(Method.HEALTH), self._look(Method.DESCRIBE))
            report = document(health, HealthAnswer).report
            differences = self._terms.differences(self._key, document(described, Description))
        except (RemoteFault, InvalidInput) as fault:
            return HealthReport(health_state=HealthState.DOWN, detail=str(fault))
        report = report or HealthReport(health_state=HealthState.HEALTHY, detail="the service answers")
        if not differences:
            return report
        state = HealthState.DOWN if report.health_state is HealthState.DOWN else HealthState.DEGRADED
        detail = "; ".join((*differences, report.detail) if report.detail else differences)
        return report.model_copy(update={"health_state": state, "detail": detail})

    async def _look(self, method: Method) -> Answered:
        return answered(await self._caller.call(method.verb, method.path, seconds=self._timeouts.health))

    async def _ask(self, method: Method, context: ExecutionContext, prepared: PreparedAction | None = None) -> Outcome:
        request: ContextRequest = ContextRequest(
            protocol_version=PROTOCOL_VERSION, executor_key=self._key, context=context
        )
        if prepared is not None:
            request = SubmitRequest(
                protocol_version=PROTOCOL_VERSION, executor_key=self._key, context=context, prepared=prepared
            )
        return await self._caller.call(
            method.verb,
            method.path,
            seconds=getattr(self._timeouts, method.value),
            body=request.model_dump_json().encode(),
            idempotency_key=context.idempotency_key,
        )


def _without_answer(status: ResultStatus, code: str, message: str, evidence: Mapping[str, Any]) -> ExecutionResult:
    return ExecutionResult(
        status=status,
        error_code=f"REMOTE_{code}",
        error_message=message,
        evidence={"fault": code, "problem": message, **evidence},
    )
