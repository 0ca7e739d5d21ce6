"""The core group's book: deaths, once each whoever notices them, and what the group does about them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from qtg_dagster.domain.core_group import (
    CoreEvent,
    CoreGroup,
    CorePolicy,
    CoreWord,
    DeathCause,
    answer_to_fall,
    belongs_to_fall,
    standing_after,
)
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import Database

_LOCK_CLASS = 5329993
_IN_ORDER = ("finished", "died", "CancelledError", "KeyboardInterrupt")

_ENDED_BADLY = text("""
    SELECT r.id, r.kind, r.dagster_run_id, r.started_at, r.end_reason,
           coalesce('run ' || r.dagster_run_id, 'runner ' || r.id) AS incident,
           r.started_at < pg_postmaster_start_time() AS before_restart
    FROM qtg.runners r
    WHERE r.network_class = :network_class AND r.kind = ANY (CAST(:kinds AS text[]))
      AND r.end_reason IS DISTINCT FROM 'finished'
      AND (r.end_reason IS NULL OR NOT r.end_reason = ANY (CAST(:in_order AS text[])))
      AND (r.ended_at IS NOT NULL OR r.id NOT IN (SELECT runner_id FROM qtg.live_runners))
      AND NOT EXISTS (SELECT FROM qtg.core_deaths d
                      WHERE d.incident = coalesce('run ' || r.dagster_run_id, 'runner ' || r.id))
    ORDER BY r.id
""")
# A runner notes its end before it lets go of its lock: one that has no note now, and had no lock before, is dead.
_BURY = text("""
    UPDATE qtg.runners SET ended_at = clock_timestamp(), end_reason = 'died'
    WHERE id = ANY (CAST(:ids AS bigint[])) AND ended_at IS NULL
    RETURNING id
""")
_DEATH = text("""
    INSERT INTO qtg.core_deaths
        (network_class, worker, incident, cause, runner_id, dagster_run_id, began_at, noticed_at, noticed_by, detail)
    SELECT :network_class, :worker, :incident, :cause, :runner_id, CAST(:run_id AS text), :began_at,
           clock_timestamp(), :noticed_by, :detail
    WHERE CAST(:runner_id AS bigint) IS NOT NULL
       OR NOT EXISTS (SELECT FROM qtg.runners r WHERE r.dagster_run_id = :run_id AND r.end_reason = 'finished')
    ON CONFLICT (incident) DO NOTHING
    RETURNING id
""")
_WORDS = text("""
    SELECT id, event, occurred_at, restart_at, worker, falls, actor, reason FROM qtg.core_group_events
    WHERE network_class = :network_class AND id > :after ORDER BY id DESC LIMIT :most
""")
_FALLS = text("""
    SELECT count(*) FROM qtg.core_group_events
    WHERE network_class = :network_class AND event <> 'resume'
      AND occurred_at > clock_timestamp() - make_interval(secs => :window)
      AND id > coalesce((SELECT max(id) FROM qtg.core_group_events
                         WHERE network_class = :network_class AND event = 'resume'), 0)
""")
_WRITE = text("""
    INSERT INTO qtg.core_group_events (network_class, event, worker, falls, occurred_at, restart_at, actor, reason)
    VALUES (:network_class, :event, :worker, :falls, :now, :restart_at, :actor, :reason)
""")
_NOW = text("SELECT clock_timestamp()")
_DEAD_RUNS = text("""
    SELECT dagster_run_id FROM qtg.core_deaths
    WHERE network_class = :network_class AND dagster_run_id IS NOT NULL AND noticed_at > now() - interval '10 minutes'
""")


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A core worker's run that Dagster knows to have failed outside a pass."""

    worker: str
    run_id: str
    began_at: datetime
    detail: str


async def notice_deaths(
    database: Database,
    network_class: str,
    policy: CorePolicy,
    workers: dict[str, str],
    *,
    noticed_by: str,
    failed_runs: Sequence[FailedRun] = (),
) -> CoreGroup:
    """Record every death that nobody has recorded, have the group answer a new fall, and say how it stands.

    `workers` names the worker of each kind of runner. One cheap look when nothing has happened.
    """
    looked = {"network_class": network_class, "kinds": list(workers), "in_order": list(_IN_ORDER)}
    async with database.transaction() as tx:
        if not failed_runs and not (await tx.execute(_ENDED_BADLY, looked)).first():
            return await _group(tx, network_class)
    async with database.transaction() as tx:
        await _lock(tx, network_class)
        candidates = (await tx.execute(_ENDED_BADLY, looked)).all()
        deaths = [
            *await _of_runners(tx, network_class, workers, candidates, noticed_by),
            *await _of_runs(tx, network_class, failed_runs, noticed_by),
        ]
        if deaths and policy.enabled:
            await _fall(tx, network_class, policy, deaths)
        return await _group(tx, network_class)


async def core_group(database: Database, network_class: str) -> CoreGroup:
    """How the group stands."""
    async with database.transaction() as tx:
        return await _group(tx, network_class)


async def words_since(database: Database, network_class: str, after: int, *, most: int = 100) -> list[CoreWord]:
    """Entries of the group's book after that one, newest first."""
    async with database.transaction() as tx:
        return await _words(tx, network_class, after, most)


async def dead_runs(database: Database, network_class: str) -> set[str]:
    """Dagster runs whose drain is known to be dead, whatever their status says."""
    async with database.transaction() as tx:
        return {row[0] for row in (await tx.execute(_DEAD_RUNS, {"network_class": network_class})).all()}


async def resume_core_group(database: Database, network_class: str, *, actor: str, reason: str) -> None:
    """Let the group go on, on a person's word; deaths so far no longer count. Raises `Conflict` when it runs."""
    async with database.transaction() as tx:
        await _lock(tx, network_class)
        group = await _group(tx, network_class)
        if group.runs:
            raise Conflict("the core group runs; there is nothing to resume")
        await _write(tx, network_class, CoreEvent.RESUME, group.now, actor=actor, reason=reason)
        await audit(
            tx,
            network_class=network_class,
            actor=actor,
            action="resume_core",
            subject_type="core_group",
            subject_id=network_class,
            details={"reason": reason, "stood": group.explain()},
        )


@dataclass(frozen=True, slots=True)
class _Death:
    worker: str
    began_at: datetime
    detail: str


async def _of_runners(
    tx: AsyncConnection, network_class: str, workers: dict[str, str], rows: Sequence[Row[tuple[object, ...]]], by: str
) -> list[_Death]:
    silent = [row.id for row in rows if row.end_reason is None]
    buried = {row.id for row in (await tx.execute(_BURY, {"ids": silent})).all()} if silent else set()
    deaths: list[_Death] = []
    for row in rows:
        if row.end_reason is None and row.id not in buried:
            continue
        worker, cause, detail = workers[row.kind], DeathCause.CRASHED, f"ended by {row.end_reason}"
        if row.end_reason is None:
            cause, detail = DeathCause.VANISHED, "its process or its database session is gone"
            if row.before_restart:
                cause, detail = DeathCause.DATABASE_RESTARTED, "the database server was started again"
        bound = {"worker": worker, "incident": row.incident, "cause": cause.value, "runner_id": row.id}
        bound |= {"run_id": row.dagster_run_id, "began_at": row.started_at, "detail": detail, "noticed_by": by}
        recorded = (await tx.execute(_DEATH, {"network_class": network_class, **bound})).first()
        if recorded and cause is not DeathCause.DATABASE_RESTARTED:
            deaths.append(_Death(worker, row.started_at, detail))
    return deaths


async def _of_runs(tx: AsyncConnection, network_class: str, runs: Sequence[FailedRun], by: str) -> list[_Death]:
    deaths: list[_Death] = []
    for run in runs:
        bound = {"worker": run.worker, "incident": f"run {run.run_id}", "cause": DeathCause.RUN_FAILED.value}
        bound |= {"run_id": run.run_id, "detail": run.detail, "noticed_by": by, "network_class": network_class}
        if (await tx.execute(_DEATH, {**bound, "runner_id": None, "began_at": run.began_at})).first():
            deaths.append(_Death(run.worker, run.began_at, run.detail))
    return deaths


async def _fall(tx: AsyncConnection, network_class: str, policy: CorePolicy, deaths: Sequence[_Death]) -> None:
    """One entry for all new deaths, unless they belong to the last fall or the group is halted anyway."""
    group = await _group(tx, network_class)
    last, now = group.last, group.now
    if last is not None and last.event is CoreEvent.HALT:
        return
    if last is not None and last.event is CoreEvent.RESTART:
        fell = last.occurred_at
        deaths = [one for one in deaths if not belongs_to_fall(one.began_at, fell, now, policy.settle_seconds)]
    if not deaths:
        return
    counted = {"network_class": network_class, "window": policy.window_seconds}
    falls = int((await tx.execute(_FALLS, counted)).scalar_one()) + 1
    answer = answer_to_fall(falls, policy.deaths_before_halt)
    told = "; ".join(f"{one.worker} died ({one.detail})" for one in deaths)
    reason = f"{told}; fall {falls} within {policy.window_seconds:.0f} s"
    await _write(
        tx,
        network_class,
        answer.event,
        now,
        worker=deaths[0].worker if len({one.worker for one in deaths}) == 1 else None,
        falls=falls,
        restart_at=now + timedelta(seconds=answer.backoff_seconds) if answer.event is CoreEvent.RESTART else None,
        reason=reason,
    )


async def _write(
    tx: AsyncConnection,
    network_class: str,
    event: CoreEvent,
    now: datetime,
    *,
    reason: str,
    worker: str | None = None,
    falls: int = 0,
    restart_at: datetime | None = None,
    actor: str | None = None,
) -> None:
    bound = {"network_class": network_class, "event": event.value, "now": now, "worker": worker, "falls": falls}
    await tx.execute(_WRITE, {**bound, "restart_at": restart_at, "actor": actor, "reason": reason})


async def _group(tx: AsyncConnection, network_class: str) -> CoreGroup:
    words = await _words(tx, network_class, 0, 1)
    now = (await tx.execute(_NOW)).scalar_one()
    last = words[0] if words else None
    return CoreGroup(standing_after(last, now), last, now)


async def _words(tx: AsyncConnection, network_class: str, after: int, most: int) -> list[CoreWord]:
    rows = await tx.execute(_WORDS, {"network_class": network_class, "after": after, "most": most})
    return [CoreWord(**{**row, "event": CoreEvent(row["event"])}) for row in rows.mappings()]


async def _lock(tx: AsyncConnection, network_class: str) -> None:
    number = zlib.crc32(network_class.encode()) & 0x7FFFFFFF
    await tx.execute(text("SELECT pg_advisory_xact_lock(:c, :n)"), {"c": _LOCK_CLASS, "n": number})
