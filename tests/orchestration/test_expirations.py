"""What nobody decided in time: launched for what is due and only then, each sweeper with its own sign of life."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from qtg_dagster.composition import Platform
from qtg_dagster.definitions import build_definitions
from qtg_dagster.domain.plans import Plan
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import create_movement, publish_template
from qtg_dagster.settings import Settings
from qtg_dagster.treasury.proposals import ProposalOrder, propose_template
from qtg_dagster.upkeep.expirations import sweep
from qtg_dagster.upkeep.workers import worker_specs
from resources import ResourceSet
from tests.orchestration.shapes import Ask, Launch, Rows, Tick

CHECKER, PROPOSALS = "expiration_checker", "template_proposal_expiration"
BEATS = "SELECT worker, last_outcome, last_items, consecutive_errors, last_error FROM qtg.worker_heartbeats"


@pytest.fixture
def movement(ask: Ask, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> str:
    """A movement whose window has closed."""
    monkeypatch.setenv("MG_CALLBACK_ALLOWED_HOSTS", "desk.example")  # its name need not lead anywhere

    async def late(platform: Platform) -> str:
        await publish_template(platform.engine, plan)
        order = MovementOrder(template_key=plan.template_key, requested_by="ada", callback_url="https://desk.example/")
        request_id = (await create_movement(platform.engine, order)).request_id
        await _close(platform, "movement_requests")
        return request_id

    return ask(late)


@pytest.fixture
def proposal(ask: Ask, plan: Plan) -> str:
    """A template proposal whose window has closed."""

    async def late(platform: Platform) -> str:
        fresh = plan.model_copy(update={"template_key": "fresh"})
        order = ProposalOrder(plan=fresh, proposed_by="ada", reason="new")
        review = await propose_template(platform.engine, order)
        await _close(platform, "template_proposals")
        return review.proposal.proposal_id

    return ask(late)


async def _close(platform: Platform, table: str) -> None:
    async with platform.database.transaction() as transaction:
        await transaction.execute(text(f"UPDATE qtg.{table} SET expires_at = clock_timestamp()"))  # noqa: S608


def beats(rows: Rows) -> dict[str, dict[str, Any]]:
    return {row.pop("worker"): row for row in rows(BEATS)}


def test_nothing_due_launches_nothing_and_is_a_sign_of_life_of_both(tick: Tick, rows: Rows) -> None:
    result = tick("due_expirations")
    assert not result.run_requests
    assert result.skip_reason.skip_message == "nothing is due"
    assert {worker: beat["last_outcome"] for worker, beat in beats(rows).items()} == {CHECKER: "ok", PROPOSALS: "ok"}


def test_a_late_movement_launches_one_run_which_calls_it_off(
    movement: str, tick: Tick, defs: dg.Definitions, instance: dg.DagsterInstance, rows: Rows
) -> None:
    [request] = tick("due_expirations").run_requests
    assert request.run_key is None
    assert request.tags == {"qtg/due": CHECKER}
    job = defs.resolve_job_def("expire")
    assert job.execute_in_process(instance=instance, tags=request.tags).success
    assert rows("SELECT request_state FROM qtg.movement_requests") == [{"request_state": "EXPIRED"}]
    assert [row["payload"] for row in rows("SELECT payload FROM qtg.movement_callback_outbox")] == [
        {"request_id": movement, "request_state": "EXPIRED"}
    ]
    assert {worker: beat["last_items"] for worker, beat in beats(rows).items()} == {CHECKER: 1, PROPOSALS: 0}
    assert not tick("due_expirations").run_requests


def test_a_late_proposal_launches_a_run_too(proposal: str, tick: Tick, launch: Launch, rows: Rows) -> None:
    [request] = tick("due_expirations").run_requests
    assert request.tags == {"qtg/due": PROPOSALS}
    assert launch("expire").success
    assert not tick("due_expirations").run_requests
    assert rows("SELECT id::text AS id, proposal_state FROM qtg.template_proposals") == [
        {"id": proposal, "proposal_state": "EXPIRED"}
    ]


def test_one_run_does_both(
    movement: str, proposal: str, tick: Tick, defs: dg.Definitions, instance: dg.DagsterInstance, rows: Rows
) -> None:
    [request] = tick("due_expirations").run_requests
    assert request.tags == {"qtg/due": f"{CHECKER},{PROPOSALS}"}
    assert defs.resolve_job_def("expire").execute_in_process(instance=instance, tags=request.tags).success
    assert {worker: beat["last_items"] for worker, beat in beats(rows).items()} == {CHECKER: 1, PROPOSALS: 1}


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
def test_while_a_run_is_alive_no_other_is_launched(
    movement: str, status: dg.DagsterRunStatus, tick: Tick, defs: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    run = instance.create_run_for_job(defs.resolve_job_def("expire"), status=status)
    result = tick("due_expirations")
    assert not result.run_requests
    assert f"run {run.run_id[:8]} is at it" in result.skip_reason.skip_message
    instance.report_run_canceled(run)
    assert tick("due_expirations").run_requests


@pytest.mark.parametrize("broken", ["requests", "proposals"])
def test_a_sweeper_that_fails_is_contained_from_the_other_and_backs_off_alone(
    broken: str,
    movement: str,
    proposal: str,
    tick: Tick,
    launch: Launch,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(engine: Engine) -> int:
        raise OSError("no route")

    where = {
        "requests": "qtg_dagster.engine.expiry.expire_pending_requests",
        "proposals": "qtg_dagster.treasury.proposals.expire_template_proposals",
    }[broken]
    failing, other = (CHECKER, PROPOSALS) if broken == "requests" else (PROPOSALS, CHECKER)
    with monkeypatch.context() as patch:
        patch.setattr(where, fail)
        for _ in range(5):
            assert not launch("expire").success
        found = beats(rows)
        assert (found[failing]["consecutive_errors"], found[failing]["last_error"]) == (5, "OSError: no route")
        assert (found[other]["consecutive_errors"], found[other]["last_outcome"]) == (0, "ok")
        states = rows(
            "SELECT (SELECT request_state FROM qtg.movement_requests) AS requests, "
            "(SELECT proposal_state FROM qtg.template_proposals) AS proposals"
        )[0]
        waits = {"requests": "PENDING_APPROVAL", "proposals": "PENDING"}[broken]
        assert states[broken] == waits
        assert {states[each] for each in states if each != broken} == {"EXPIRED"}
    skipped = tick("due_expirations")
    assert not skipped.run_requests
    assert f"{failing} failed 5 times in a row" in skipped.skip_reason.skip_message
    assert beats(rows)[failing]["consecutive_errors"] == 5, "a rest is no success"
    assert launch("expire").success, "by hand it does not rest"
    assert beats(rows)[failing]["consecutive_errors"] == 0


def test_a_run_of_the_sensor_leaves_a_sweeper_that_backs_off_at_rest(
    movement: str, ask: Ask, defs: dg.Definitions, instance: dg.DagsterInstance, rows: Rows
) -> None:
    async def fail(engine: Engine) -> int:
        raise OSError("no route")

    for _ in range(6):
        with pytest.raises(OSError, match="no route"):
            ask(lambda platform: sweep(platform.engine, CHECKER, fail))
    job = defs.resolve_job_def("expire")
    assert job.execute_in_process(instance=instance, tags={"qtg/due": PROPOSALS}).success
    assert rows("SELECT request_state FROM qtg.movement_requests") == [{"request_state": "PENDING_APPROVAL"}]
    assert beats(rows)[CHECKER]["consecutive_errors"] == 6


def test_a_run_that_died_shows_in_both_heartbeats_once_and_is_no_death_of_the_core_group(
    tick: Tick, defs: dg.Definitions, instance: dg.DagsterInstance, rows: Rows
) -> None:
    run = instance.create_run_for_job(defs.resolve_job_def("expire"), status=dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(run)
    tick("due_expirations")
    for beat in beats(rows).values():
        assert beat["consecutive_errors"] == 1
        assert "failed outside a pass" in beat["last_error"]
    assert len(beats(rows)) == 2
    tick("due_expirations")
    assert {beat["consecutive_errors"] for beat in beats(rows).values()} == {0}, "noticed once; nothing is due"
    assert rows("SELECT 1 FROM qtg.core_deaths") == []


def test_a_run_that_failed_in_its_pass_is_not_taken_for_dead(
    movement: str, tick: Tick, launch: Launch, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(engine: Engine) -> int:
        raise OSError("no route")

    monkeypatch.setattr("qtg_dagster.engine.expiry.expire_pending_requests", fail)
    assert not launch("expire").success
    assert tick("due_expirations").run_requests
    assert beats(rows)[CHECKER]["consecutive_errors"] == 1
    assert beats(rows)[PROPOSALS]["consecutive_errors"] == 0


def test_the_sensor_looks_as_often_as_the_quicker_wants_and_stands_with_the_others() -> None:
    def sensor(**settings: Any) -> dg.SensorDefinition:
        found = build_definitions(Settings(**settings), ResourceSet.wired()).get_repository_def()
        return found.get_sensor_def("due_expirations")

    assert sensor().minimum_interval_seconds == 30
    assert sensor(expiration_check_interval_seconds=5).minimum_interval_seconds == 5
    assert sensor(template_proposal_expiration_interval_seconds=7).minimum_interval_seconds == 7
    off = sensor(workers_enabled=False)
    assert off.default_status is dg.DefaultSensorStatus.STOPPED
    assert "MG_WORKERS_ENABLED is false" in (off.description or "")
    assert {spec.name: spec.core for spec in worker_specs(Settings()) if spec.name in (CHECKER, PROPOSALS)} == {
        CHECKER: False,
        PROPOSALS: False,
    }
