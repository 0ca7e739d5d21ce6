"""What must stand, and what must hold, before movements are taken."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from qtg_dagster.composition import Platform
from qtg_dagster.upkeep.seeding import seed
from qtg_dagster.upkeep.startup import check_templates
from qtg_dagster.upkeep.workers import expected_workers
from tests.orchestration.shapes import Ask, Rows


async def expected(platform: Platform) -> list[str]:
    return expected_workers(platform.settings)


def test_every_worker_and_executor_has_its_row_before_anything_runs(ask: Ask, rows: Rows) -> None:
    ask(lambda platform: seed(platform.engine))
    workers = rows("SELECT worker FROM qtg.worker_heartbeats WHERE last_attempt_at IS NULL ORDER BY worker")
    found = {row["worker"] for row in workers}
    assert found == set(ask(expected))
    assert {"node_dispatcher", "callback_dispatcher", "audit_outbox_promoter", "executor_health", "retention"} <= found
    states = {row["executor_key"]: row["health_state"] for row in rows("SELECT * FROM qtg.executor_registry")}
    assert states["exec.local.watch"] == "unknown"
    assert states["exec.local.broken"] == "down"


def test_templates_whose_actions_all_have_executors_are_fit(approved: str, ask: Ask) -> None:
    assert ask(lambda platform: check_templates(platform.engine)) == []


@pytest.mark.parametrize(("retired", "cancelled", "problems"), [(False, False, 1), (True, False, 1), (True, True, 0)])
def test_an_action_that_nobody_does_is_named(
    retired: bool, cancelled: bool, problems: int, approved: str, ask: Ask
) -> None:
    """A retired version still counts while a movement of it is open."""

    async def orphan(platform: Platform) -> list[str]:
        async with platform.database.transaction() as transaction:
            await transaction.execute(
                text("UPDATE qtg.movement_plan_nodes SET executor_key = 'exec.gone.move' WHERE node_key = 'move'")
            )
            if retired:
                await transaction.execute(text("UPDATE qtg.movement_plan_versions SET retired_at = now()"))
            if cancelled:
                await transaction.execute(
                    text("UPDATE qtg.movement_requests SET request_state = 'CANCELLED', finished_at = now()")
                )
        return await check_templates(platform.engine)

    found = ask(orphan)
    assert len(found) == problems
    assert all("template two_steps version 1: node move needs exec.gone.move" in line for line in found)
