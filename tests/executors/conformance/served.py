"""Shipped executors behind a service of their own, as `qtg executor serve` hosts them, on their benches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.contract import ExecutionContext, PreparedAction
from qtg_dagster.executors.conformance import Declared, Knob
from qtg_dagster.executors.conformance.losing_proxy import LosingProxy
from qtg_dagster.executors.contract import Executor
from qtg_dagster.executors.remote.executor import RemoteExecutor, Timeouts
from qtg_dagster.executors.remote.hosting import Listening, describe, hosting
from qtg_dagster.executors.remote.service import ExecutorService
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.executors.request_gate import RequestGate
from qtg_dagster.secret import Secret
from tests.executors.conformance.service import SHARED
from tests.executors.conformance.shipped import open_bench

#: How long the lane's health waits for its provider, and QTG's for the service.
PROVIDER_SECONDS, SERVICE_SECONDS = 0.2, 0.8
#: What the wire between QTG and the service can do to a request; all else is the provider's.
WIRE_KNOBS = frozenset({Knob.LOSE_REPLY, Knob.LOSE_REQUEST, Knob.AWAY, Knob.SILENT})


class ServedBench:
    """`inner` with `remote` for its executor. With a proxy before the service, trouble on the way is made there."""

    def __init__(self, inner: Any, remote: RemoteExecutor, proxy: LosingProxy | None = None) -> None:
        self.inner, self.proxy = inner, proxy
        self.executor: Any = remote
        self.declared: Declared = inner.declared
        self.knobs: frozenset[Knob] = inner.knobs
        self.canaries: tuple[str, ...] = (*inner.canaries, SHARED)

    async def context(self) -> ExecutionContext:
        found: ExecutionContext = await self.inner.context()
        return found

    async def effects(self, idempotency_key: str | None) -> int:
        return int(await self.inner.effects(idempotency_key))

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:
        signed: PreparedAction = await self.inner.sign(context, prepared)
        return signed

    def session(self) -> AbstractAsyncContextManager[Any]:
        raise AssertionError("a session cannot leave this process")

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        if self.proxy is not None and knob in WIRE_KNOBS:
            await self.proxy.turn(knob)
        else:
            await self.inner.turn(knob, context)

    async def calm(self) -> None:
        if self.proxy is not None:
            await self.proxy.calm()
        await self.inner.calm()


@dataclass(frozen=True, slots=True)
class Served:
    """One service: with the trouble between it and its provider, and between it and QTG."""

    behind: ServedBench
    before: ServedBench


@asynccontextmanager
async def serving(
    key: str, executor: Executor, **rest: Any
) -> AsyncIterator[tuple[str, Callable[[str], RemoteExecutor]]]:
    """The service's URL, and what makes QTG's side of it for a URL; `rest` goes to the service."""
    async with AsyncExitStack() as stack:
        described = describe(key, executor)
        service = ExecutorService(executor, described, RequestGate([Secret(SHARED)], SystemClock()), **rest)
        terms = Terms(
            submit_grace_seconds=described.submit_grace_seconds,
            serialization_key="one for all nodes" if described.serializes_by_config else None,
        )

        def connect(url: str, timeouts: Timeouts | None = None) -> RemoteExecutor:
            remote = RemoteExecutor(key, url, Secret(SHARED), terms=terms, timeouts=timeouts)
            stack.push_async_callback(remote.close)
            return remote

        url, _ = await stack.enter_async_context(hosting(service.app(), Listening()))
        yield url, connect


@asynccontextmanager
async def open_served(key: str, wrap: Callable[[Any], Any] = lambda executor: executor) -> AsyncIterator[Served]:
    """The shipped executor of this key, or what `wrap` makes of it."""
    limits = Timeouts(health=SERVICE_SECONDS)
    async with AsyncExitStack() as stack:
        inner = await stack.enter_async_context(open_bench(key, PROVIDER_SECONDS))
        url, connect = await stack.enter_async_context(serving(key, wrap(inner.executor), session=inner.session))
        proxy = await stack.enter_async_context(LosingProxy(url))
        yield Served(
            behind=ServedBench(inner, connect(url, limits)),
            before=ServedBench(inner, connect(proxy.url, limits), proxy),
        )
