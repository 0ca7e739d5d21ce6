"""The executor in memory behind HTTP, and its provider's book as a service of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.executors.conformance import Knob
from qtg_dagster.executors.conformance.provider_book import PROVIDER_KNOBS
from qtg_dagster.executors.contract import submit_grace
from qtg_dagster.executors.remote.hosting import Listening, describe, hosting
from qtg_dagster.executors.remote.service import ExecutorService
from qtg_dagster.executors.request_gate import RequestGate
from qtg_dagster.secret import Secret
from tests.executors.conformance.memory import MemoryBench, RightExecutor

KEY = "exec.memory.act"
SHARED = "0123456789abcdef0123456789abcdef-shared"


@dataclass(frozen=True)
class Hosted:
    """Where everything is."""

    bench: MemoryBench
    url: str
    book_url: str
    context_file: Path


def book_app(
    count: Callable[[str | None], Awaitable[int]],
    set_state: Callable[[Knob, str], None],
    knobs: frozenset[Knob] = PROVIDER_KNOBS,
) -> Starlette:
    """A provider's book as docs/conformance.md has it."""

    async def offered(request: Request) -> Response:
        return JSONResponse({"knobs": sorted(knobs)})

    async def effects(request: Request) -> Response:
        return JSONResponse({"effects": await count(request.path_params.get("key"))})

    async def turn(request: Request) -> Response:
        set_state(Knob(request.path_params["knob"]), request.path_params["key"])
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/knobs", offered),
            Route("/effects", effects),
            Route("/effects/{key}", effects),
            Route("/knobs/{knob}/{key}", turn, methods=["POST"]),
        ]
    )


@asynccontextmanager
async def hosted(
    folder: Path,
    executor: type[RightExecutor] = RightExecutor,
    where: Listening | None = None,
    **declared: Any,
) -> AsyncIterator[Hosted]:
    """An executor of this kind at a URL."""
    bench = MemoryBench(executor)
    gate = RequestGate([Secret(SHARED)], SystemClock())
    service = ExecutorService(bench.executor, describe(KEY, bench.executor, signs=False), gate)
    file = folder / "order.json"
    terms = {"submit_grace_seconds": submit_grace(bench.executor), "signs": False}
    order = {"action_type": "memory", "node_config": {"amount": "12.5"}}
    claims = {"varies": ["expires_at"], **declared}
    file.write_text(json.dumps({"context": order, "declared": claims, "terms": terms, "timeouts": {"health": 0.3}}))
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(hosting(service.app(), where or Listening()))
        book_url, _ = await stack.enter_async_context(hosting(book_app(bench.effects, bench.set_state), Listening()))
        yield Hosted(bench, url, book_url, file)
