"""The stand-in as a whole: its venues over one ledger, and the background work on the chain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from qtg_dagster.sandbox.exchange.arrivals import RequestLog
from qtg_dagster.sandbox.exchange.books import Books
from qtg_dagster.sandbox.exchange.chain import ChainClient, ChainRefused, ChainUnreachable
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.dialect import Role
from qtg_dagster.sandbox.exchange.faults import FaultQueue
from qtg_dagster.sandbox.exchange.ledger import Ledger
from qtg_dagster.sandbox.exchange.misbehaviour import Powers, misbehave, respond
from qtg_dagster.sandbox.exchange.payouts import PayoutDesk
from qtg_dagster.sandbox.exchange.venue import Venue
from qtg_dagster.sandbox.exchange.visit import Visit
from qtg_dagster.sandbox.exchange.watcher import DepositWatcher
from qtg_dagster.sandbox.exchange.wire import Answer, VenueRequest

_log = logging.getLogger(__name__)


class Exchange:
    """Everything behind the HTTP surface. Raises `ConfigurationError` when it cannot start as configured."""

    def __init__(self, config: ExchangeConfig) -> None:
        self.config = config
        self.ledger = Ledger(config.ledger, epoch=config.epoch)
        self.books = Books(self.ledger, config.venues)
        self.books.open_accounts()
        self.venues = {key: Venue(key, item, self.ledger, self.books) for key, item in config.venues.items()}
        self.faults = FaultQueue()
        self.requests = RequestLog()
        self.desks: dict[str, PayoutDesk] = {}
        self._answered: dict[tuple[str, str, str], Answer] = {}
        if config.chain is not None:
            self._chain = ChainClient(config.chain.rpc_url, config.chain.chain_id)
            self.desks = {key: PayoutDesk(venue, self._chain, config.chain) for key, venue in self.venues.items()}
            self._watcher = DepositWatcher(self.venues, self.ledger, self._chain, config.chain)
        self._news = asyncio.Event()
        self._late: set[asyncio.Task[None]] = set()
        self._trouble: str | None = None

    async def serve_venue(self, request: Request) -> Response:
        """Answer one request to a venue, or carry out the fault that was ordered for it."""
        key, endpoint = request.path_params["venue"], "/" + request.path_params["endpoint"]
        venue = self.venues.get(key)
        if venue is None:
            return JSONResponse({"code": -1000, "msg": f"no venue {key} here"}, 404)
        arrived = VenueRequest(
            method=request.method,
            endpoint=endpoint,
            query=request.scope["query_string"].decode("utf-8", "replace"),
            body=(await request.body()).decode("utf-8", "replace"),
            headers=dict(request.headers),
        )
        found = venue.find(arrived.method, endpoint)
        roles = (Role.OTHER,) if found is None else found[0].roles
        place = (key, arrived.method, endpoint)
        earlier = self._answered.get(place)
        fault = self.faults.take(key, endpoint, roles, answered_before=earlier is not None)
        visit = Visit(venue, arrived, found, self.requests.note(venue, arrived, roles[0], fault), fault)

        def execute(do: Callable[[], Answer]) -> Answer:
            answer = do()
            if found is not None:  # what clients make up as paths is not kept
                self._answered[place] = answer
            self._news.set()
            return answer

        if fault is None:
            return respond(execute(visit.execute), venue.dialect)
        powers = Powers(
            dialect=venue.dialect,
            execute=lambda: execute(visit.execute),
            execute_copy=lambda: execute(visit.execute_copy),
            later=lambda seconds: self._execute_later(seconds, lambda: execute(visit.execute)),
            earlier=earlier,
        )
        return await misbehave(request, fault, powers)

    def _execute_later(self, seconds: float, execute: Callable[[], Answer]) -> None:
        async def wait_and_execute() -> None:
            await asyncio.sleep(seconds)
            execute()

        task = asyncio.create_task(wait_and_execute())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def work(self) -> None:
        """Watch for deposits and pay withdrawals out, for ever; ends only by raising. Without a chain, only wait."""
        if self.config.chain is None:
            await asyncio.Event().wait()
            return
        while True:
            self._news.clear()
            await self._try(self._watch)
            for desk in self.desks.values():
                await self._try(desk.step)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.config.chain.poll_seconds):
                    await self._news.wait()

    async def close(self) -> None:
        """Drop late executions, and let go of the chain and the ledger."""
        for task in list(self._late):
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        if self.config.chain is not None:
            await self._chain.close()
        self.ledger.close()

    async def _watch(self) -> None:
        await self._chain.verify()
        if await self._watcher.step():
            for desk in self.desks.values():
                await desk.send_lost_again()

    async def _try(self, step: Callable[[], Awaitable[Any]]) -> None:
        try:
            await step()
        except (ChainUnreachable, ChainRefused) as error:
            if self._trouble != str(error):
                self._trouble = str(error)
                _log.warning("chain: %s", error)
