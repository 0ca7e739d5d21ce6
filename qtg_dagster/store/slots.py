"""Drain slots: one drain works per slot, its successor waits on the slot's lock, and both can be seen."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import SLOT_LOCK_CLASS, slot_number

_STATE = text("""
    SELECT count(*) FILTER (WHERE l.granted) AS holders, count(*) FILTER (WHERE NOT l.granted) AS waiters,
           (SELECT extract(epoch FROM now() - max(started_at)) FROM qtg.runners r
            WHERE r.kind = :kind AND r.ended_at IS NULL AND r.network_class = :network_class AND r.slot = :place
              AND r.id IN (SELECT runner_id FROM qtg.live_runners)) AS youngest_age
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = :lock_class AND l.objid::bigint = :slot AND l.objsubid = 2
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


@dataclass(frozen=True, slots=True)
class SlotState:
    """Who stands at a slot."""

    held: bool
    waiters: int
    youngest_age_seconds: float | None


async def slot_state(database: Database, kind: str, network_class: str, slot: int = 0) -> SlotState:
    """Whether a live drain holds the slot, how many wait for it, and how old the youngest of them is."""
    bound = {
        "kind": kind,
        "network_class": network_class,
        "lock_class": SLOT_LOCK_CLASS,
        "place": slot,
        "slot": slot_number(kind, network_class, slot),
    }
    async with database.transaction() as transaction:
        row = (await transaction.execute(_STATE, bound)).one()
    age = float(row.youngest_age) if row.youngest_age is not None else None
    return SlotState(held=row.holders > 0, waiters=row.waiters, youngest_age_seconds=age)
