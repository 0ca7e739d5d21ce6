"""Scheduled windows: each is served at most once, whoever comes first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

from qtg_dagster.store.database import Database
from qtg_dagster.store.statements import as_json

_BEGIN = text("""
    INSERT INTO qtg.cycles (network_class, worker, cycle_key) VALUES (:network_class, :worker, :cycle_key)
    ON CONFLICT DO NOTHING
    RETURNING cycle_key
""")
_FINISH = text("""
    UPDATE qtg.cycles SET result = CAST(:result AS jsonb)
    WHERE network_class = :network_class AND worker = :worker AND cycle_key = :cycle_key
""")


async def begin_cycle(database: Database, network_class: str, worker: str, cycle_key: str) -> bool:
    """Take a window; False when it was taken before, even by a process that died in it."""
    bound = {"network_class": network_class, "worker": worker, "cycle_key": cycle_key}
    async with database.transaction() as transaction:
        return (await transaction.execute(_BEGIN, bound)).first() is not None


async def finish_cycle(
    database: Database, network_class: str, worker: str, cycle_key: str, result: Mapping[str, Any]
) -> None:
    """Note what came of a window."""
    bound = {"network_class": network_class, "worker": worker, "cycle_key": cycle_key, "result": as_json(dict(result))}
    async with database.transaction() as transaction:
        await transaction.execute(_FINISH, bound)
