"""Rows that must stand before the first work: who is expected to be alive, and who is registered."""

from __future__ import annotations

from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.heartbeats import seed_heartbeats
from qtg_dagster.upkeep.health import register_known
from qtg_dagster.upkeep.workers import expected_workers


async def seed(engine: Engine) -> None:
    """Write a heartbeat row for each worker that is switched on, and a row for each executor and signer."""
    await seed_heartbeats(engine.database, engine.settings.network_class, expected_workers(engine.settings))
    await register_known(engine)
