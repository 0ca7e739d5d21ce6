"""A bench around any executor that is asked over HTTP: the kit itself loses its requests and replies."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from qtg_dagster.domain.contract import ExecutionContext, PreparedAction
from qtg_dagster.executors.conformance.bench import Knob
from qtg_dagster.executors.conformance.bench_file import BenchFile
from qtg_dagster.executors.conformance.losing_proxy import LosingProxy
from qtg_dagster.executors.conformance.provider_book import PROVIDER_KNOBS, ProviderBook
from qtg_dagster.executors.conformance.verdicts import NotJudged
from qtg_dagster.executors.contract import Executor

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

_ON_THE_WAY = frozenset({Knob.LOSE_REPLY, Knob.LOSE_REQUEST, Knob.AWAY, Knob.SILENT})


class RemoteBench:
    """`executor` must reach its service through `proxy`. Without a book no effect can be counted."""

    def __init__(
        self,
        executor: Executor,
        proxy: LosingProxy,
        file: BenchFile,
        *,
        canaries: tuple[str, ...] = (),
        book: ProviderBook | None = None,
        provider_knobs: frozenset[Knob] = frozenset(),
    ) -> None:
        self.executor = executor
        self.declared = file.declared
        self.knobs = _ON_THE_WAY | provider_knobs
        self.canaries = canaries
        self._proxy, self._file, self._book = proxy, file, book

    async def context(self) -> ExecutionContext:
        return self._file.order()

    async def effects(self, idempotency_key: str | None) -> int:
        return await self._known_book().effects(idempotency_key)

    async def sign(self, context: ExecutionContext, prepared: PreparedAction) -> PreparedAction:  # noqa: ARG002
        raise NotJudged("the action wants a signature, and there is no signer here: judge it by a bench of your own")

    def session(self) -> AbstractAsyncContextManager[AsyncSession | None]:
        return nullcontext()

    async def turn(self, knob: Knob, context: ExecutionContext) -> None:
        if knob in PROVIDER_KNOBS:
            await self._known_book().turn(knob, context.idempotency_key)
        else:
            await self._proxy.turn(knob)

    async def calm(self) -> None:
        await self._proxy.calm()

    def _known_book(self) -> ProviderBook:
        if self._book is None:
            raise NotJudged("the provider's effects cannot be counted: give --book")
        return self._book
