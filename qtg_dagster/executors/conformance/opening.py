"""Opening the bench that a command line names."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance.bench import Bench
from qtg_dagster.executors.conformance.bench_file import BenchFile
from qtg_dagster.executors.conformance.losing_proxy import LosingProxy
from qtg_dagster.executors.conformance.provider_book import ProviderBook
from qtg_dagster.executors.conformance.remote_bench import RemoteBench
from qtg_dagster.secret import Secret

BenchFactory = Callable[[str], AbstractAsyncContextManager[Bench]]


@dataclass(frozen=True, slots=True)
class RemoteSubject:
    """A service that hosts an executor, and what is known of its provider. `canaries` must never be shown."""

    url: str
    key: str
    secret: Secret
    context_file: Path
    book_url: str | None = None
    ca_file: Path | None = None
    canaries: tuple[Secret, ...] = ()


def bench_factory(name: str) -> BenchFactory:
    """The callable under `module:name`, which is given an executor key; raises `InvalidInput`."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            "bench", f"{name!r}: {error}", "Give MODULE:NAME of a function that opens a bench."
        ) from error
    if not callable(found):
        raise InvalidInput("bench", f"{name!r} cannot be called", "Name a function from a key to a bench.")
    factory: BenchFactory = found
    return factory


@asynccontextmanager
async def remote_bench(subject: RemoteSubject) -> AsyncIterator[RemoteBench]:
    """The service with the kit's proxy before it."""
    from qtg_dagster.executors.addresses import ServiceAddress
    from qtg_dagster.executors.remote.executor import RemoteExecutor

    file = BenchFile.read(subject.context_file)
    address = ServiceAddress.read(subject.url, ca_file=subject.ca_file)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(LosingProxy(address.url, address.tls_context()))
        executor = RemoteExecutor(subject.key, proxy.url, subject.secret, terms=file.terms, timeouts=file.timeouts)
        stack.push_async_callback(executor.close)
        book = None
        if subject.book_url is not None:
            book = ProviderBook(subject.book_url)
            stack.push_async_callback(book.close)
        yield RemoteBench(
            executor,
            proxy,
            file,
            canaries=tuple(secret.expose() for secret in (subject.secret, *subject.canaries)),
            book=book,
            provider_knobs=await book.knobs() if book else frozenset(),
        )
