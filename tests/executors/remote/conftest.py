"""A remote executor for a URL, and a service of an executor with a book."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.executors.remote.executor import RemoteExecutor, Timeouts
from qtg_dagster.executors.remote.hosting import Listening, describe, hosting
from qtg_dagster.executors.remote.service import ExecutorService
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.executors.request_gate import RequestGate
from tests.executors.remote.orders import KEY, SECRET, BookExecutor

Connect = Callable[..., RemoteExecutor]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Make a remote executor for a URL; all are closed after the test."""
    async with contextlib.AsyncExitStack() as stack:

        def make(url: str, **rest: Any) -> RemoteExecutor:
            given = {
                "terms": Terms(submit_grace_seconds=67),
                "timeouts": Timeouts(submit=5, observe=5, recover=5),
                **rest,
            }
            remote = RemoteExecutor(given.pop("key", KEY), url, given.pop("secret", SECRET), **given)
            stack.push_async_callback(remote.close)
            return remote

        yield make


@pytest.fixture
def book() -> BookExecutor:
    return BookExecutor()


@pytest.fixture
async def service(book: BookExecutor) -> AsyncIterator[str]:
    """URL of the service of `book`; it takes requests of up to 64 KiB."""
    gate = RequestGate([SECRET], SystemClock())
    hosted = ExecutorService(book, describe(KEY, book), gate, most_request_bytes=65_536)
    async with hosting(hosted.app(), Listening()) as (url, _):
        yield url
