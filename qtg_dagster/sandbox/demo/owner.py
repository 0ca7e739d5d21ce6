"""The movements' owner in the demo: a receiver of callbacks, written as one would write it outside of QTG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from qtg_dagster.callbacks.verify import CallbackRejected, verify
from qtg_dagster.executors.remote.hosting import Listening, hosting


class Owner:
    """Believes what it can verify, acts once on each event, and remembers the order in which it was told."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._seen: set[str] = set()
        self.told: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.rejected = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """The URL to give as callback_url, served while the block runs."""
        app = Starlette(routes=[Route("/movements", self._receive, methods=["POST"])])
        async with hosting(app, Listening()) as (url, _):
            yield f"{url}/movements"

    async def _receive(self, request: Request) -> Response:
        try:
            told = verify(request.headers, await request.body(), [self._secret])
        except CallbackRejected:
            self.rejected += 1
            return Response(status_code=401)
        if told.event_id not in self._seen:
            self._seen.add(told.event_id)
            self.told[told.event["request_id"]].append(told.event)
        return Response(status_code=204)

    @property
    def events(self) -> int:
        """How many different events it was told."""
        return len(self._seen)

    def last_state(self, request_id: str) -> str | None:
        """The movement's state as its owner knows it."""
        states = [event["payload"].get("request_state") for event in self.told[request_id]]
        return next((str(state) for state in reversed(states) if state), None)

    def in_order(self) -> bool:
        """Whether it was told everything of each movement, first things first."""
        return all(
            [event["sequence"] for event in events] == list(range(1, len(events) + 1)) for events in self.told.values()
        )
