"""Drain slots: one drain works per slot, its successor waits on the slot's lock, and both can be seen."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import RUNNER_LOCK_CLASS, SLOT_LOCK_CLASS, SLOT_LOCKS, slot_number

_STATE = text("""
    WITH locks AS MATERIALIZED (
        SELECT l.classid::bigint AS class, l.objid::bigint AS number, l.granted,
               coalesce(a.state = 'idle' AND a.state_change < clock_timestamp() - make_interval(secs => :overdue),
                        false) AS hangs
        FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.objsubid = 2
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ),
    alive AS (
        SELECT r.started_at, r.dagster_run_id, l.hangs
        FROM qtg.runners r JOIN locks l ON l.class = :runner_class AND l.number = r.id AND l.granted
        WHERE r.kind = :kind AND r.ended_at IS NULL AND r.network_class = :network_class AND r.slot = :slot
    )
    SELECT count(*) FILTER (WHERE granted AND NOT hangs) AS holders, count(*) FILTER (WHERE NOT granted) AS waiters,
           (SELECT extract(epoch FROM now() - max(started_at)) FROM alive WHERE NOT hangs) AS youngest_age,
           (SELECT array_agg(dagster_run_id) FROM alive WHERE hangs AND dagster_run_id IS NOT NULL) AS hung_runs
    FROM locks
    WHERE class = :slot_class AND number = ANY (CAST(:numbers AS bigint[]))
""")


@dataclass(frozen=True, slots=True)
class SlotState:
    """Who stands at a slot. One that hangs does not count: others work beside it."""

    held: bool
    waiters: int
    youngest_age_seconds: float | None
    hung_runs: frozenset[str] = frozenset()


async def slot_state(
    database: Database, kind: str, network_class: str, slot: int = 0, *, overdue_seconds: float = 3600
) -> SlotState:
    """Whether a drain works in the slot, how many wait for it, how old the youngest of them is, and whose run hangs.

    A drain hangs when its session has been silent for `overdue_seconds`.
    """
    bound = {
        "kind": kind,
        "network_class": network_class,
        "slot": slot,
        "overdue": float(overdue_seconds),
        "runner_class": RUNNER_LOCK_CLASS,
        "slot_class": SLOT_LOCK_CLASS,
        "numbers": [slot_number(kind, network_class, slot, lock) for lock in range(SLOT_LOCKS)],
    }
    async with database.transaction() as transaction:
        row = (await transaction.execute(_STATE, bound)).one()
    age = float(row.youngest_age) if row.youngest_age is not None else None
    return SlotState(row.holders > 0, row.waiters, age, frozenset(row.hung_runs or ()))
