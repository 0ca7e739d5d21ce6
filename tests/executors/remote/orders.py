"""Work orders, a secret, and an executor with a book of what it did."""

# ruff: noqa: ARG002 - the contract names what this executor does not read
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.domain.contract import (
    ExecutionContext,
    ExecutionResult,
    HealthReport,
    HealthState,
    PreparedAction,
    ResultStatus,
)
from qtg_dagster.secret import Secret

KEY = "exec.example.transfer"
SECRET = Secret("a secret that only the tests know, 32+")
OTHER_SECRET = Secret("a secret of somebody else altogether!")
S = ResultStatus


def order(attempt_no: int = 1, **config: Any) -> ExecutionContext:
    """The context of a node that moves 12.5 USDC."""
    terms = {"asset": "USDC", "amount": "12.5", "destination": "0xallowed", **config}
    return ExecutionContext(
        request_id="11111111-1111-1111-1111-111111111111",
        request_node_id="22222222-2222-2222-2222-222222222222",
        compiled_plan_hash="ab" * 32,
        template_key="sample",
        template_version=1,
        node_key="first",
        node_kind="action",
        action_type="example_transfer",
        attempt_no=attempt_no,
        intent={},
        input_params={},
        resolved_bindings={},
        risk_controls={},
        node_config=terms,
        provider_context={},
        idempotency_key=f"qtg-{attempt_no}-0123456789abcdef",
    )


def action() -> PreparedAction:
    return PreparedAction.of(action_type="example_transfer", payload_format="example.v1", payload='{"amount":"12.5"}')


class BookExecutor:
    """Does what it is told, writes it down, and raises what it is told to."""

    submit_grace_seconds = 7.0

    def __init__(self) -> None:
        self.book: list[str] = []
        self.fails_after: dict[str, Exception] = {}
        self.answers: dict[str, ExecutionResult] = {}
        self.calls: list[str] = []

    def _answer(self, method: str, status: ResultStatus, key: str) -> ExecutionResult:
        self.calls.append(method)
        if method in self.fails_after:
            raise self.fails_after[method]
        usual = ExecutionResult(
            status=status, provider_refs={"reference": key}, evidence={"book": self.book.count(key)}
        )
        return self.answers.get(method, usual)

    async def preflight(self, context: ExecutionContext) -> ExecutionResult | None:
        found = self._answer("preflight", S.REJECTED, context.idempotency_key)
        return found if "preflight" in self.answers else None

    async def prepare(self, context: ExecutionContext) -> PreparedAction:
        self._answer("prepare", S.UNKNOWN, context.idempotency_key)
        return action()

    async def submit(
        self, context: ExecutionContext, prepared: PreparedAction, session: object = None
    ) -> ExecutionResult:
        assert prepared == action()
        self.book.append(context.idempotency_key)
        return self._answer("submit", S.ACCEPTED, context.idempotency_key)

    async def observe(self, context: ExecutionContext) -> ExecutionResult:
        return self._answer("observe", S.COMPLETED, context.idempotency_key)

    async def recover(self, context: ExecutionContext, session: object = None) -> ExecutionResult:
        known = context.idempotency_key in self.book
        return self._answer("recover", S.ACCEPTED if known else S.UNKNOWN, context.idempotency_key)

    async def health(self) -> HealthReport | None:
        self.calls.append("health")
        return HealthReport(health_state=HealthState.HEALTHY, detail="the book is open")


class KeyedExecutor(BookExecutor):
    """One whose actions are alone by sender."""

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        return str(node_config.get("sender"))
