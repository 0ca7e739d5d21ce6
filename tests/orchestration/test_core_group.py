"""The core group on real deaths: killed processes, crashed drains, failed runs; and who is not drawn in."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import dagster as dg
import pytest
from sqlalchemy import text

from assets.windows import FAILURE_TAG
from qtg_dagster.composition import Platform
from qtg_dagster.domain.core_group import CoreGroup, CoreStanding
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.drain import Drain, DrainKind
from qtg_dagster.host.paths import project_root
from qtg_dagster.host.platform_checks import core_workers
from qtg_dagster.store.core_group import core_group, resume_core_group
from qtg_dagster.store.runners import Runner
from qtg_dagster.upkeep.core_group import CoreWatch, look_after_core
from qtg_dagster.upkeep.workers import survey_workers
from tests.orchestration.shapes import Ask, Launch, Rows, Tick

#: Registers as a drain and says so; then only a kill ends it.
_VICTIM = """
import asyncio, sys
from qtg_dagster.store.database import Database
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.runners import Runner
async def main():
    async with Runner(Database(sys.argv[1], pool_size=1), RunnerIdentity(sys.argv[2], "sandbox")) as runner:
        await runner.take_slot(60)
        print(runner.runner_id, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""

Victim = Callable[[str], None]


@pytest.fixture
def kill_one(database_url: str, ask: Ask) -> Iterator[Victim]:
    """Start a process that is a drain to all who look, SIGKILL it, and wait until PostgreSQL has let go of its lock."""
    started: list[subprocess.Popen[str]] = []

    def kill(kind: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", _VICTIM, database_url, kind],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(project_root())},
        )
        started.append(process)
        assert process.stdout is not None
        runner = int(process.stdout.readline())
        process.kill()
        process.wait()
        ask(lambda platform: _until_unlocked(platform, runner))

    yield kill
    for process in started:
        process.kill()
        process.wait()


async def _until_unlocked(platform: Platform, runner: int) -> None:
    live = text("SELECT 1 FROM qtg.live_runners WHERE runner_id = :id")
    while True:
        async with platform.database.transaction() as transaction:
            if (await transaction.execute(live, {"id": runner})).first() is None:
                return
        await asyncio.sleep(0.02)


def look(ask: Ask, by: str = "test") -> CoreGroup:
    async def asked(platform: Platform) -> CoreGroup:
        return await look_after_core(platform.database, platform.settings, noticed_by=by)

    group: CoreGroup = ask(asked)
    return group


def fall(ask: Ask, kill_one: Victim, times: int) -> CoreGroup:
    """So many deaths of workers that began after the last one."""
    for _ in range(times):
        kill_one("dispatch")
        group = look(ask)
    return group


def test_a_killed_drain_is_one_death_whoever_notices_it(kill_one: Victim, ask: Ask, rows: Rows) -> None:
    kill_one("dispatch")

    async def all_at_once(platform: Platform) -> list[CoreGroup]:
        return await asyncio.gather(
            *(look_after_core(platform.database, platform.settings, noticed_by=f"n{n}") for n in range(6))
        )

    groups = ask(all_at_once)
    assert all(group.runs for group in groups), "the first fall has no pause"
    assert rows("SELECT worker, cause FROM qtg.core_deaths") == [{"worker": "node_dispatcher", "cause": "vanished"}]
    assert rows("SELECT event, falls FROM qtg.core_group_events") == [{"event": "restart", "falls": 1}]
    assert rows("SELECT end_reason FROM qtg.runners") == [{"end_reason": "died"}]


def test_drains_that_end_in_order_are_no_deaths(launch: Launch, approved: str, ask: Ask, rows: Rows) -> None:
    assert launch("dispatch").success
    assert look(ask).last is None
    assert rows("SELECT 1 FROM qtg.core_deaths") == []


def test_a_drain_that_crashes_is_a_death(ask: Ask, rows: Rows) -> None:
    async def crash(platform: Platform) -> None:
        with pytest.raises(ZeroDivisionError):
            async with Runner(platform.database, RunnerIdentity("observe", "sandbox")):
                raise ZeroDivisionError

    ask(crash)
    look(ask)
    deaths = rows("SELECT worker, cause, detail FROM qtg.core_deaths")
    assert deaths == [{"worker": "node_observer", "cause": "crashed", "detail": "ended by ZeroDivisionError"}]


def test_a_session_lost_to_a_restart_of_the_server_is_recorded_and_is_no_fall(ask: Ask, rows: Rows) -> None:
    async def lost(platform: Platform) -> None:
        insert = text(
            "INSERT INTO qtg.runners (kind, network_class, host, pid, started_at) "
            "SELECT kind, 'sandbox', 'here', 1, pg_postmaster_start_time() - interval '1 second' "
            "FROM unnest(ARRAY['dispatch', 'observe', 'recover']) kind"
        )
        async with platform.database.transaction() as transaction:
            await transaction.execute(insert)

    ask(lost)
    assert look(ask).last is None
    assert rows("SELECT DISTINCT cause FROM qtg.core_deaths") == [{"cause": "database_restarted"}]


def test_the_other_core_workers_end_with_the_dead_and_its_successor_goes_on(
    kill_one: Victim, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MG_DRAIN_LINGER_SECONDS", "600")

    async def together(platform: Platform) -> tuple[str, bool]:
        observing = Drain(platform.engine, DrainKind.OBSERVE)
        dispatching = Drain(platform.engine, DrainKind.DISPATCH)
        async with (
            CoreWatch(platform.database, platform.settings, "node_observer", observing.stop),
            CoreWatch(platform.database, platform.settings, "node_dispatcher", dispatching.stop),
        ):
            await asyncio.to_thread(kill_one, "dispatch")
            successor = asyncio.create_task(dispatching.run())
            ended = await asyncio.wait_for(observing.run(), 30)
            await asyncio.sleep(0)
            still = not successor.done()
            dispatching.stop("the test is over")
            await successor
        return ended.ended_because, still and dispatching.report.ended_because == "the test is over"

    because, went_on = ask(together)
    assert because.startswith("core group halted: node_dispatcher died")
    assert went_on


def test_repeated_deaths_halt_until_an_operator_resumes(
    kill_one: Victim, approved: str, ask: Ask, tick: Tick, launch: Launch, rows: Rows
) -> None:
    assert fall(ask, kill_one, 4).standing is CoreStanding.RESTARTING
    assert fall(ask, kill_one, 1).standing is CoreStanding.HALTED
    skipped = tick("ready_nodes")
    assert not skipped.run_requests
    assert "core group halted" in skipped.skip_reason.skip_message
    assert "qtg core resume" in skipped.skip_reason.skip_message
    assert launch("dispatch").success, "a drain that somebody launches ends at once"
    assert rows("SELECT DISTINCT node_state FROM qtg.movement_request_nodes WHERE node_key = 'move'") == [
        {"node_state": "READY"}
    ]
    assert launch("resume_core", "resume_core_workers", actor="grace", reason="the disk was full").success
    assert tick("ready_nodes").run_requests
    [audited] = rows("SELECT actor, subject_type, details FROM qtg.audit_outbox WHERE action = 'resume_core'")
    assert (audited["actor"], audited["subject_type"]) == ("grace", "core_group")
    assert audited["details"]["reason"] == "the disk was full"
    assert fall(ask, kill_one, 1).runs, "deaths before the resumption no longer count"


def test_what_runs_cannot_be_resumed(ask: Ask) -> None:
    async def resume(platform: Platform) -> None:
        await resume_core_group(platform.database, "sandbox", actor="grace", reason="why not")

    with pytest.raises(Conflict, match="nothing to resume"):
        ask(resume)


def test_with_failing_fast_switched_off_deaths_are_recorded_and_stop_nobody(
    kill_one: Victim, ask: Ask, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MG_CORE_FAIL_FAST_ENABLED", "false")
    monkeypatch.setenv("MG_CORE_DEATHS_BEFORE_HALT", "1")
    assert fall(ask, kill_one, 2).runs
    assert rows("SELECT count(*) AS many FROM qtg.core_deaths") == [{"many": 2}]


def test_a_dead_drain_is_replaced_at_once_although_dagster_still_believes_in_its_run(
    approved: str, tick: Tick, ask: Ask, rows: Rows, defs: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    run = instance.create_run_for_job(defs.resolve_job_def("dispatch"), status=dg.DagsterRunStatus.STARTED)
    assert not tick("ready_nodes").run_requests

    async def die(platform: Platform) -> None:
        insert = text(
            "INSERT INTO qtg.runners (kind, network_class, host, pid, dagster_run_id) "
            "VALUES ('dispatch', 'sandbox', 'here', 1, :run)"
        )
        async with platform.database.transaction() as transaction:
            await transaction.execute(insert, {"run": run.run_id})

    ask(die)
    assert tick("ready_nodes").run_requests
    assert rows("SELECT incident FROM qtg.core_deaths") == [{"incident": f"run {run.run_id}"}]


def test_a_run_that_failed_before_its_drain_registered_is_a_death_once(
    approved: str, tick: Tick, rows: Rows, defs: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    run = instance.create_run_for_job(defs.resolve_job_def("dispatch"), status=dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(run)
    for _ in range(3):
        tick("ready_nodes")
    assert rows("SELECT cause, runner_id FROM qtg.core_deaths") == [{"cause": "run_failed", "runner_id": None}]
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.tags[FAILURE_TAG] == "noticed"


def test_a_halt_shows_in_doctor_in_the_survey_and_in_the_checks(
    kill_one: Victim, ask: Ask, defs: dg.Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MG_CORE_DEATHS_BEFORE_HALT", "1")
    fall(ask, kill_one, 1)

    async def survey(platform: Platform) -> dict[str, str]:
        found = await survey_workers(platform.database, platform.settings, asked_by="test")
        return {one.spec.name: one.state.value for one in found.workers}

    states = ask(survey)
    assert states["node_dispatcher"] == states["node_recovery"] == "halted"
    assert states["evm_nonce_reaper"] == "off", "there is no chain"
    assert states["executor_health"] == "never_ran"
    assert states["balance_snapshot"] == "off"

    async def settings(platform: Platform) -> object:
        return platform.settings

    findings = {one.name: one for one in core_workers(ask(settings))}
    assert not findings["core group"].ok
    assert "qtg core resume" in findings["core group"].line()


def test_a_halted_core_leaves_the_sidecars_alone(
    kill_one: Victim, ask: Ask, launch: Launch, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MG_CORE_DEATHS_BEFORE_HALT", "1")
    fall(ask, kill_one, 1)
    assert launch("executor_health").success
    assert launch("reap_evm_nonces").success
    beats = {row["worker"]: row["last_outcome"] for row in rows("SELECT * FROM qtg.worker_heartbeats")}
    assert beats == {"executor_health": "ok"}, "the reaper is of the core group and did no pass"


def test_a_sidecar_that_fails_is_contained(
    launch: Launch, approved: str, ask: Ask, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(engine: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr("assets.executors.refresh_health", broken)
    assert not launch("executor_health").success
    [beat] = rows("SELECT last_outcome, consecutive_errors, last_error FROM qtg.worker_heartbeats")
    assert beat == {"last_outcome": "error", "consecutive_errors": 1, "last_error": "OSError: no route"}
    assert launch("dispatch").success
    assert ask(lambda platform: core_group(platform.database, "sandbox")).last is None
    [node] = rows("SELECT node_state FROM qtg.movement_request_nodes WHERE node_key = 'move'")
    assert node["node_state"] == "SUBMITTED"
