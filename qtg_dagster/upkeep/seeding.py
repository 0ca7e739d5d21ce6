"""Rows that must stand before the first work: who is expected to be alive, and who can be reached."""

from __future__ import annotations

from qtg_dagster.engine.breakers import start_paused
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.life_signs import seed_heartbeats
from qtg_dagster.upkeep.health import refresh_health
from qtg_dagster.upkeep.workers import expected_workers


async def seed(engine: Engine) -> None:
    """Write a heartbeat row for each worker that is switched on, and ask each executor and signer how it is.

    Without the round, approvals would be judged by what was true when this machine was last up. A paused start comes
    first: a provider that hangs must not delay it.
    """
    if engine.settings.start_paused:
        await start_paused(engine)
    await seed_heartbeats(engine.database, engine.settings.network_class, expected_workers(engine.settings))
    await refresh_health(engine)
