"""A test's hands on delivery: write callbacks, let the courier work, read what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from qtg_dagster.callbacks.courier import CallbackCourier
from qtg_dagster.callbacks.sending import CallbackSender, tls_of
from qtg_dagster.callbacks.signing import SigningKeys
from qtg_dagster.domain.workers import Claimant
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from tests.engine.desk import Desk
from tests.engine.plans import node, plan_of

Row = dict[str, Any]


@dataclass
class Resolved:
    """A resolver that knows what it was told."""

    names: dict[str, Sequence[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: bool = False

    async def addresses(self, host: str, port: int) -> Sequence[str]:  # noqa: ARG002
        self.asked.append(host)
        if self.silent:
            await asyncio.Event().wait()
        if host not in self.names:
            raise OSError("name or service not known")
        return self.names[host]


@dataclass
class Post:
    """One courier and the desk whose movements it tells of."""

    SECRET: ClassVar[str] = "a secret of at least twenty-four bytes"

    desk: Desk
    database: Database
    runner: Claimant
    resolved: Resolved
    ca_file: Path
    more: asyncio.Event = field(default_factory=asyncio.Event)
    now: float | None = None
    _courier: CallbackCourier | None = None

    @property
    def settings(self) -> Settings:
        return self.desk.engine.settings

    @property
    def courier(self) -> CallbackCourier:
        if self._courier is None:
            self._courier = self.another()
        return self._courier

    def another(self) -> CallbackCourier:
        """A courier by the settings as they are now."""
        return CallbackCourier(self.database, self.settings, build_sender=self._sender)

    def _sender(self, settings: Settings) -> CallbackSender:
        clock = {} if self.now is None else {"clock": lambda: float(self.now or 0)}
        return CallbackSender(
            SigningKeys(settings.inventory),
            settings.receiver_policy,
            self.resolved,
            timeout_seconds=settings.callback_timeout_seconds,
            tls=tls_of(settings.model_copy(update={"callback_ca_file": self.ca_file})),
            **clock,
        )

    async def movement(self, url: str | None, events: int = 1) -> str:
        """A movement with so many callbacks that wait."""
        request_id = await self.desk.create(plan_of(node("first")))
        await self.tell(request_id, url, events)
        return request_id

    async def tell(self, request_id: str, url: str | None, events: int = 1) -> None:
        """More callbacks of a movement, written as the engine writes them, with the rights it has."""
        async with self.desk.engine.database.connection() as connection:
            for _ in range(events):
                await connection.execute(
                    "INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url) "
                    "VALUES (%s, 'frontier_advanced', '{\"frontier\": [\"first\"]}', %s)",
                    (request_id, url),
                )

    async def begin(self) -> int:
        """One look of the courier."""
        return await self.courier.work(self.runner, self.more)

    async def settled(self) -> None:
        """Until nothing is in flight."""
        async with asyncio.timeout(60):
            while self.courier.in_flight:
                self.more.clear()
                if self.courier.in_flight:
                    await self.more.wait()

    async def round(self) -> int:
        """One look, and all that comes of it; gives how many were begun on."""
        begun = await self.begin()
        await self.settled()
        return begun

    async def deliver(self) -> int:
        """Rounds until nothing is due."""
        total = 0
        while begun := await self.round():
            total += begun
        return total

    async def make_due(self) -> None:
        """Let all waiting be over: what an hour would do."""
        await self.desk.sql("UPDATE qtg.movement_callback_outbox SET next_attempt_at = now() WHERE status = 'pending'")

    async def rows(self) -> list[Row]:
        """Every callback, with the seconds until its next attempt as `due_in`."""
        return await self.desk.rows(
            "SELECT *, extract(epoch FROM next_attempt_at - last_attempt_at)::float AS wait "
            "FROM qtg.movement_callback_outbox ORDER BY id"
        )

    async def one(self) -> Row:
        """The only callback."""
        [row] = await self.rows()
        return row

    async def states(self) -> list[str]:
        return [row["status"] for row in await self.rows()]

    async def close(self) -> None:
        if self._courier is not None:
            await self._courier.finish(0)
