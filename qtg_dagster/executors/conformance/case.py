"""One work order driven through an executor the way the engine drives it, with all its answers kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.executors.conformance.bench import Bench, Knob
from qtg_dagster.executors.conformance.verdicts import Broken, NotJudged
from qtg_dagster.executors.contract import UsesSession

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

T = TypeVar("T")
_WITHOUT_EFFECT = (ResultStatus.REJECTED, ResultStatus.NOT_SENT)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the kit waits, in seconds, and how often it looks."""

    call_seconds: float = 60.0
    health_seconds: float = 10.0  # what the health worker waits
    looks: int = 20
    between_looks_seconds: float = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave: a result or an exception, which the engine reads as UNKNOWN after a submit."""

    method: str
    result: ExecutionResult | None = None
    error: Exception | None = None

    @property
    def status(self) -> ResultStatus:
        return ResultStatus.UNKNOWN if self.result is None else self.result.status

    def given(self) -> ExecutionResult:
        """The result; raises `Broken` when there was an exception instead."""
        if self.result is None:
            raise Broken(f"{self.method} raised {self}")
        return self.result

    def __str__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        if self.result is None:
            return "nothing"
        return " ".join(part for part in (self.result.status, self.result.error_code) if part)


class Case:
    """The life of one attempt. Refs are carried from answer to answer as the engine stores them."""

    def __init__(self, bench: Bench, limits: Limits, context: ExecutionContext) -> None:
        self.bench, self.limits, self.context = bench, limits, context
        self.answers: list[Answer] = []
        self.actions: list[PreparedAction] = []

    @property
    def prepared(self) -> PreparedAction:
        return self.actions[-1]

    async def turn(self, *knobs: Knob) -> None:
        """Turn knobs; raises `NotJudged` when the bench has none of that name."""
        for knob in knobs:
            if knob not in self.bench.knobs:
                raise NotJudged(f"the bench has no knob {knob}")
            await self.bench.turn(knob, self.context)

    async def effects(self) -> int:
        """Effects of this attempt in the provider's book."""
        return await self.bench.effects(self.context.idempotency_key)

    async def all_effects(self) -> int:
        return await self.bench.effects(None)

    async def preflight(self) -> Answer:
        return await self._ask("preflight", lambda: self.bench.executor.preflight(self.context))

    async def prepare(self) -> PreparedAction:
        """The action, unsigned; raises `Broken` when there is none."""
        try:
            action = await self._within(self.bench.executor.prepare(self.context))
        except Exception as error:
            raise Broken(f"prepare raised {type(error).__name__}: {error}") from error
        self.actions.append(action)
        return action

    async def ready(self) -> PreparedAction:
        """Preflight, prepare, sign; the context then holds what the engine would have written down."""
        passed = await self.preflight()
        if passed.result is not None or passed.error is not None:
            raise Broken(f"preflight refused the bench's work order: {passed}; correct the order or the executor")
        action = await self.prepare()
        if action.signing_required:
            action = await self.bench.sign(self.context, action)
            self.actions.append(action)
        self.remember(action)
        return action

    def remember(self, action: PreparedAction) -> None:
        """Have the action as the one of this attempt."""
        refs = dict(action.provider_refs)
        self.context = self.context.model_copy(update={"prepared": action, "node_refs": refs})

    async def submit(self, action: PreparedAction | None = None) -> Answer:
        async with self._session() as session:
            sent = action or self.prepared
            return self._carry(
                await self._ask("submit", lambda: self.bench.executor.submit(self.context, sent, session))
            )

    async def acted(self) -> Answer:
        """Ready and submitted; raises `Broken` when a well-behaved provider was not asked."""
        await self.ready()
        answer = await self.submit()
        if answer.given().status in _WITHOUT_EFFECT:
            raise Broken(f"submit did not act, although nothing was in its way: {answer}")
        return answer

    async def observe(self) -> Answer:
        return self._carry(await self._ask("observe", lambda: self.bench.executor.observe(self.context)))

    async def recover(self) -> Answer:
        async with self._session() as session:
            return self._carry(await self._ask("recover", lambda: self.bench.executor.recover(self.context, session)))

    async def observe_until(self, wanted: ResultStatus) -> Answer:
        """Look again until this is seen, as often as the limits allow; the last answer."""
        answer = await self.observe()
        for _ in range(self.limits.looks):
            if answer.status is wanted:
                break
            await asyncio.sleep(self.limits.between_looks_seconds)
            answer = await self.observe()
        return answer

    async def _ask(self, method: str, call: Callable[[], Awaitable[ExecutionResult | None]]) -> Answer:
        try:
            answer = Answer(method, await self._within(call()))
        except Exception as error:  # noqa: BLE001 - whatever an executor throws is what is to be judged
            answer = Answer(method, error=error)
        self.answers.append(answer)
        return answer

    async def _within(self, call: Awaitable[T]) -> T:
        return await asyncio.wait_for(call, self.limits.call_seconds)

    def _carry(self, answer: Answer) -> Answer:
        if answer.result is not None:
            refs = {**self.context.node_refs, **answer.result.provider_refs}
            self.context = self.context.model_copy(update={"node_refs": refs})
        return answer

    def _session(self) -> AbstractAsyncContextManager[AsyncSession | None]:
        executor = self.bench.executor
        asks = isinstance(executor, UsesSession) and executor.uses_session
        return self.bench.session() if asks else nullcontext()
