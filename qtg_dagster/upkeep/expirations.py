"""Sweeping up what nobody decided in time: each sweeper with a heartbeat of its own, and none hindered by another."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from qtg_dagster.domain.proposals import TEMPLATE_PROPOSAL_EXPIRATION
from qtg_dagster.engine.expiry import EXPIRATION_CHECKER
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.database import Database
from qtg_dagster.store.expirations import count_due
from qtg_dagster.store.heartbeats import Heartbeats

Sweep = Callable[[Engine], Awaitable[int]]


async def sweep(engine: Engine, worker: str, work: Sweep) -> int:
    """One pass of a sweeper, with its heartbeat; says how much it called off. An error is on record and raised."""
    beats, network_class, started = Heartbeats(engine.database), engine.settings.network_class, time.monotonic()
    try:
        swept = await work(engine)
    except Exception as error:
        await beats.beat(network_class, worker, duration_ms=_since(started), items=0, error=error)
        raise
    await beats.beat(network_class, worker, duration_ms=_since(started), items=swept)
    return swept


async def due_for(database: Database, network_class: str) -> dict[str, int]:
    """Sweeper -> how much waits for it."""
    requests, proposals = await count_due(database, network_class)
    return {EXPIRATION_CHECKER: requests, TEMPLATE_PROPOSAL_EXPIRATION: proposals}


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000
