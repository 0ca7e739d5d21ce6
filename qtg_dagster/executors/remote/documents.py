"""The documents that go between QTG and an executor service, each with the version of the protocol it follows."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from qtg_dagster.domain.contract import (
    PROTOCOL_VERSION,
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.domain.plans import Frozen

Version = Annotated[str, Field(json_schema_extra={"const": PROTOCOL_VERSION})]
S = ResultStatus


class Method(StrEnum):
    """A method of the contract; its path is its name after a slash."""

    PREFLIGHT = "preflight"
    PREPARE = "prepare"
    SUBMIT = "submit"
    OBSERVE = "observe"
    RECOVER = "recover"
    HEALTH = "health"
    DESCRIBE = "describe"

    @property
    def path(self) -> str:
        return f"/{self}"

    @property
    def verb(self) -> str:
        return "GET" if self in (Method.HEALTH, Method.DESCRIBE) else "POST"


#: What each method may say of the action.
MAY_ANSWER = {
    Method.PREFLIGHT: frozenset({S.REJECTED, S.NOT_SENT}),
    Method.SUBMIT: frozenset({S.NOT_SENT, S.REJECTED, S.ACCEPTED, S.COMPLETED, S.UNKNOWN}),
    Method.OBSERVE: frozenset({S.ACCEPTED, S.OBSERVING, S.COMPLETED, S.FAILED, S.UNKNOWN}),
    Method.RECOVER: frozenset({S.ACCEPTED, S.OBSERVING, S.COMPLETED, S.FAILED, S.UNKNOWN}),
}
#: What is believed only with evidence, except of preflight, which decides nothing.
NEEDS_EVIDENCE = frozenset({S.NOT_SENT, S.REJECTED, S.COMPLETED, S.FAILED})


class ContextRequest(Frozen):
    """The body of preflight, prepare, observe and recover."""

    protocol_version: Version
    executor_key: str = Field(description="whom it is for: a service under one secret with another refuses it")
    context: ExecutionContext


class SubmitRequest(ContextRequest):
    """The body of submit."""

    prepared: PreparedAction = Field(description="what prepare returned, with the signature when it asked for one")


class ResultAnswer(Frozen):
    """200 of submit, observe and recover, and of a preflight that does not pass; one that passes is 204."""

    protocol_version: Version
    result: ExecutionResult


class PreparedAnswer(Frozen):
    """200 of prepare."""

    protocol_version: Version
    prepared: PreparedAction


class HealthAnswer(Frozen):
    """200 of health; no report when the executor has nothing to reach."""

    protocol_version: Version
    report: HealthReport | None = None


class Description(Frozen):
    """200 of describe: what the inventory's entry must agree with."""

    protocol_version: Version
    executor_key: str
    submit_grace_seconds: float = Field(ge=0, description="how long after a lost submit the service may still act")
    serialization_key: str | None = Field(default=None, description="actions under one key must not overlap")
    serializes_by_config: bool = Field(
        default=False, description="the key depends on the node: the entry must name one for all of them"
    )
    signs: bool | None = Field(default=None, description="whether prepared actions want a signature; null = some do")


class ErrorDetail(Frozen):
    """Why there is no answer."""

    code: str
    message: str
    nothing_done: bool = Field(description="true proves, in a signed 4xx, that this request had no effect")
    field: str | None = Field(default=None, description="of INVALID_INPUT: the path of the offending value")
    fix: str | None = Field(default=None, description="of INVALID_INPUT: what to give instead")


class ErrorAnswer(Frozen):
    """Every 4xx and 5xx."""

    protocol_version: Version
    error: ErrorDetail


DOCUMENTS: tuple[type[Frozen], ...] = (
    ContextRequest,
    SubmitRequest,
    ResultAnswer,
    PreparedAnswer,
    HealthAnswer,
    Description,
    ErrorAnswer,
)
