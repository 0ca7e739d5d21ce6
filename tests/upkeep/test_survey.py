"""How the workers of the delivery drain are judged: by what waits for them, and by whether it lives."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.audit_chain import promote_entries
from qtg_dagster.store.database import Database
from qtg_dagster.store.heartbeats import Heartbeats
from qtg_dagster.upkeep.delivery import DELIVER
from qtg_dagster.upkeep.workers import AUDIT_PROMOTER, WorkerStanding, survey_workers
from tests.engine.desk import Desk


async def promoter(engine: Engine) -> WorkerStanding:
    survey = await survey_workers(engine.database, engine.settings, asked_by="test")
    [found] = [one for one in survey.workers if one.spec.name == AUDIT_PROMOTER]
    return found


async def leave_an_entry(engine: Engine) -> None:
    async with engine.database.transaction() as tx:
        await audit(tx, network_class="sandbox", actor="ada", action="looked", subject_id="x", details={})


async def fall_silent(engine: Engine) -> None:
    await Heartbeats(engine.database).beat("sandbox", AUDIT_PROMOTER, duration_ms=1, items=0)
    async with engine.database.transaction() as tx:
        await tx.execute(text("UPDATE qtg.worker_heartbeats SET last_attempt_at = now() - interval '1 hour'"))


async def test_with_nothing_to_promote_a_promoter_without_a_process_is_idle(engine: Engine) -> None:
    await fall_silent(engine)
    assert (await promoter(engine)).state.value == "idle"


async def test_entries_that_wait_while_no_delivery_drain_lives_are_an_alarm(engine: Engine) -> None:
    await leave_an_entry(engine)
    await fall_silent(engine)
    found = await promoter(engine)
    assert (found.state.value, found.alarming) == ("dead", True)
    assert "1 item waits" in found.told()


async def test_a_living_drain_whose_promoter_says_nothing_is_overdue_and_not_dead(engine: Engine) -> None:
    await leave_an_entry(engine)
    await fall_silent(engine)
    async with engine.store.runner(RunnerIdentity(DELIVER, "sandbox")):
        assert (await promoter(engine)).state.value == "overdue"


async def test_promotion_ends_the_alarm(desk: Desk, engine: Engine) -> None:
    await leave_an_entry(engine)
    await fall_silent(engine)
    database = Database(desk.owner.url, pool_size=1)
    try:
        assert await promote_entries(database, "sandbox", 10) == 1
    finally:
        await database.close()
    assert (await promoter(engine)).state.value == "idle"
