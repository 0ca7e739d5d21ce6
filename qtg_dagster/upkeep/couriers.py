"""What a delivery drain carries: callbacks, audit entries, notifications. Each kind of work is a courier."""

from __future__ import annotations

import asyncio
from typing import Protocol

from qtg_dagster.domain.workers import Claimant


class Courier(Protocol):
    """One kind of outgoing work. A failing courier backs off alone; the others go on."""

    @property
    def worker(self) -> str:
        """The name that its heartbeats bear."""
        ...

    @property
    def interval_seconds(self) -> float:
        """How long it may stay without a look when nothing wakes it."""
        ...

    async def work(self, claimant: Claimant, more: asyncio.Event) -> int:
        """Begin on what is due and return how many items that was; the next look comes at once when it was any.

        Returns within moments: what takes long goes on in tasks of the courier's own, which set `more` when they leave
        room for further work. Claims are made in the claimant's name.
        """
        ...

    @property
    def in_flight(self) -> int:
        """Items that are still being worked on."""
        ...

    async def finish(self, seconds: float) -> None:
        """Let what is in flight end within so long, and give back the rest."""
        ...

    async def waiting(self, horizon_seconds: float = 0) -> int:
        """How many items are due now or within the horizon: what the sensor starts a drain for."""
        ...
