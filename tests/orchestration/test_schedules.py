"""Cadences, windows that run once, and what each scheduled worker leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from assets.balances import _COLUMNS, _reading_row
from assets.keys import WINDOW_TAG
from qtg_dagster.composition import Platform
from qtg_dagster.domain.balances import BalanceReading
from qtg_dagster.engine.parts import Engine
from qtg_dagster.treasury.balances import VenueSnapshot, missing_wallets, snapshot_balances, totals
from qtg_dagster.upkeep.cycles import (
    PassResult,
    cron_of,
    cycle_key,
    missed_between,
    serve_cycle,
    serve_windows,
    windows_of,
)
from resources import ResourceSet
from tests.orchestration.shapes import Ask, Launch, Rows

MINUTE = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "cron"),
    [
        (10, "* * * * *"),
        (60, "* * * * *"),
        (600, "*/10 * * * *"),
        (3600, "0 */1 * * *"),
        (21600, "0 */6 * * *"),
        (86400, "0 0 * * *"),
    ],
)
def test_a_cadence_becomes_cron(seconds: int, cron: str) -> None:
    found = cron_of(seconds)
    assert (found if isinstance(found, str) else found[0]) == cron


def test_a_cadence_that_no_single_line_says_becomes_one_line_a_tick() -> None:
    found = cron_of(45 * 60)
    assert found[:3] == ["0 0 * * *", "45 0 * * *", "30 1 * * *"]
    assert len(found) == 32


def test_below_a_minute_one_run_serves_all_windows_of_its_minute() -> None:
    assert windows_of(MINUTE, 20) == tuple(MINUTE + timedelta(seconds=s) for s in (0, 20, 40))
    assert windows_of(MINUTE, 600) == (MINUTE,)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """One that lasts: schedules reach an instance by its reference only."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


async def _nothing() -> PassResult:
    return PassResult(0)


def test_one_window_never_runs_twice_however_many_come_for_it(ask: Ask, rows: Rows) -> None:
    passes: list[str] = []

    async def work() -> PassResult:
        passes.append("worked")
        return PassResult(1, {"seen": "it"})

    async def two_ticks(platform: Platform) -> list[bool]:
        key = cycle_key(MINUTE)
        return await asyncio.gather(*(serve_cycle(platform.engine, "executor_health", key, work) for _ in range(8)))

    assert sorted(ask(two_ticks)) == [False] * 7 + [True]
    assert passes == ["worked"]
    assert ask(lambda platform: serve_cycle(platform.engine, "executor_health", cycle_key(MINUTE), work)) is False
    [cycle] = rows("SELECT cycle_key, result FROM qtg.cycles")
    assert cycle == {"cycle_key": "2026-03-01T12:30:00Z", "result": {"items": 1, "seen": "it"}}


@pytest.mark.parametrize(
    ("silent_seconds", "interval", "missed"),
    [(0, 60, 0), (60, 60, 0), (61, 60, 1), (120, 60, 1), (3600, 60, 59), (10, 20, 0), (59, 20, 2), (-5, 60, 0)],
)
def test_windows_since_the_last_sign_of_life_were_missed(silent_seconds: int, interval: int, missed: int) -> None:
    assert missed_between(MINUTE - timedelta(seconds=silent_seconds), MINUTE, interval) == missed


def test_a_worker_that_never_ran_has_missed_nothing() -> None:
    assert missed_between(None, MINUTE, 60) == 0


def test_the_first_run_after_downtime_tells_how_many_windows_it_missed(
    defs: dg.Definitions, instance: dg.DagsterInstance, launch: Launch, rows: Rows, ask: Ask
) -> None:
    assert launch("executor_health").success
    past = "UPDATE qtg.worker_heartbeats SET last_attempt_at = :at WHERE worker = 'executor_health' RETURNING 1"
    window = datetime.now(UTC).replace(second=0, microsecond=0)

    async def fall_silent(platform: Platform) -> None:
        async with platform.database.transaction() as transaction:
            await transaction.execute(text(past), {"at": window - timedelta(minutes=30)})

    ask(fall_silent)
    job = defs.resolve_job_def("executor_health")
    assert job.execute_in_process(instance=instance, tags={WINDOW_TAG: f"{window:%Y-%m-%dT%H:%MZ}"}).success
    [cycle] = rows("SELECT result FROM qtg.cycles WHERE cycle_key = :key", key=cycle_key(window))
    assert cycle["result"]["missed_windows"] == 29


def test_a_pass_that_fails_shows_in_the_heartbeat_and_is_not_swallowed(ask: Ask, rows: Rows) -> None:
    async def fail() -> PassResult:
        raise OSError("no route")

    for minute in range(2):
        with pytest.raises(OSError, match="no route"):
            ask(lambda platform, key=str(minute): serve_cycle(platform.engine, "evm_nonce_reaper", key, fail))
    beat = "SELECT last_outcome, consecutive_errors, last_error FROM qtg.worker_heartbeats"
    assert rows(beat) == [{"last_outcome": "error", "consecutive_errors": 2, "last_error": "OSError: no route"}]
    ask(lambda platform: serve_cycle(platform.engine, "evm_nonce_reaper", "2", _nothing))
    assert rows(beat) == [{"last_outcome": "ok", "consecutive_errors": 0, "last_error": None}]


def test_a_window_whose_successor_has_begun_is_left_out(ask: Ask) -> None:
    class Late:
        def now(self) -> datetime:
            return MINUTE + timedelta(seconds=45)

    async def serve(platform: Platform) -> list[str]:
        engine = platform.engine
        late = Engine(engine.store, engine.settings, engine.inventory, engine.executors, engine.signers, Late())
        return await serve_windows(late, "balance_snapshot", windows_of(MINUTE, 20), _nothing)

    assert ask(serve) == [cycle_key(MINUTE + timedelta(seconds=40))]


async def _fail() -> PassResult:
    raise OSError("no route")


def _errors(ask: Ask, worker: str, times: int) -> None:
    for number in range(times):
        with pytest.raises(OSError, match="no route"):
            ask(lambda platform, key=str(number): serve_cycle(platform.engine, worker, key, _fail))


@pytest.mark.parametrize(("errors", "served"), [(4, True), (5, False)])
def test_from_the_fifth_failure_on_a_window_is_left_out_until_the_pause_is_over(
    errors: int, served: bool, ask: Ask
) -> None:
    _errors(ask, "balance_snapshot", errors)
    window = datetime.now(UTC).replace(microsecond=0)
    found = ask(lambda platform: serve_windows(platform.engine, "balance_snapshot", [window], _nothing))
    assert found == ([cycle_key(window)] if served else [])


def test_a_pause_that_is_over_lets_the_next_window_through(ask: Ask) -> None:
    _errors(ask, "balance_snapshot", 5)

    async def later(platform: Platform) -> list[str]:
        async with platform.database.transaction() as transaction:
            await transaction.execute(
                text("UPDATE qtg.worker_heartbeats SET last_attempt_at = last_attempt_at - interval '1 minute'")
            )
        return await serve_windows(platform.engine, "balance_snapshot", [MINUTE], _nothing)

    assert ask(later) == [cycle_key(MINUTE)]


def test_a_tick_of_a_worker_that_backs_off_is_skipped_with_the_reason(
    defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance, ask: Ask
) -> None:
    _errors(ask, "executor_health", 6)
    given = {"settings": resources.settings, "database": resources.database}
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        tick = defs.resolve_schedule_def("executor_health").evaluate_tick(context)
    assert not tick.run_requests
    assert "failed 6 times in a row" in tick.skip_message


def test_a_sidecars_run_that_died_outside_its_pass_shows_in_its_heartbeat_once(
    defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance, rows: Rows
) -> None:
    run = instance.create_run_for_job(defs.resolve_job_def("executor_health"), status=dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(run)
    given = {"settings": resources.settings, "database": resources.database}
    for _ in range(2):
        with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
            assert defs.resolve_schedule_def("executor_health").evaluate_tick(context).run_requests
    [beat] = rows("SELECT worker, consecutive_errors, last_error FROM qtg.worker_heartbeats")
    assert (beat["worker"], beat["consecutive_errors"]) == ("executor_health", 1)
    assert "failed outside a pass" in beat["last_error"]
    assert rows("SELECT 1 FROM qtg.core_deaths") == []


def test_a_run_of_the_reaper_that_failed_in_its_pass_is_no_death_of_a_core_worker(
    launch: Launch,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(engine: Engine, chain: object) -> int:
        raise OSError("no route")

    given = {"settings": resources.settings, "database": resources.database}
    schedule = defs.resolve_schedule_def("reap_evm_nonces")
    monkeypatch.setattr("qtg_dagster.jobs.upkeep.look_after_nonces", broken)
    assert not launch("reap_evm_nonces").success
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        schedule.evaluate_tick(context)
    assert rows("SELECT 1 FROM qtg.core_deaths") == []
    run = instance.create_run_for_job(defs.resolve_job_def("reap_evm_nonces"), status=dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(run)
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        schedule.evaluate_tick(context)
    assert rows("SELECT worker FROM qtg.core_deaths") == [{"worker": "evm_nonce_reaper"}]


def test_health_is_kept_and_its_change_is_dated_only_when_it_changes(launch: Launch, rows: Rows) -> None:
    read = "SELECT health_state, checked_at, changed_at FROM qtg.executor_registry WHERE executor_key = :key"
    assert launch("executor_health").success
    [first] = rows(read, key="exec.local.broken")
    assert launch("executor_health").success
    [second] = rows(read, key="exec.local.broken")
    assert first["health_state"] == second["health_state"] == "down"
    assert second["changed_at"] == first["changed_at"]
    assert second["checked_at"] > first["checked_at"]
    [watch] = rows(read, key="exec.local.watch")
    assert watch["health_state"] == "unknown"


def test_the_health_asset_shows_who_is_down(launch: Launch) -> None:
    result = launch("executor_health")
    [materialized] = result.get_asset_materialization_events()
    shown = materialized.materialization.metadata
    assert shown["down"].value == 1
    assert "exec.local.broken | down" in shown["health"].value
    [check] = [each for each in result.get_asset_check_evaluations() if each.check_name == "none_down"]
    assert not check.passed
    assert check.metadata["exec.local.broken"].value == "unplugged"


def test_the_row_of_an_executor_that_is_gone_becomes_an_orphan(launch: Launch, ask: Ask, rows: Rows) -> None:
    async def stranger(platform: Platform) -> None:
        async with platform.database.transaction() as transaction:
            await transaction.execute(
                text(
                    "INSERT INTO qtg.signer_registry (network_class, signer_key, health_state, observed_signer_address)"
                    " VALUES (:network, 'signer.local.gone', 'healthy', '0x01')"
                ),
                {"network": platform.settings.network_class},
            )

    ask(stranger)
    assert launch("executor_health").success
    [row] = rows("SELECT orphan, health_state, observed_signer_address FROM qtg.signer_registry")
    assert row == {"orphan": True, "health_state": "unknown", "observed_signer_address": None}


class Fetcher:
    """A venue with one balance, or with a problem."""

    paying_wallet = "main"

    def __init__(self, venue_key: str, problem: Exception | None = None) -> None:
        self.venue_key = venue_key
        self._problem = problem

    async def fetch(self) -> tuple[BalanceReading, ...]:
        if self._problem is not None:
            raise self._problem
        moment = {"request_started_at": MINUTE, "request_ended_at": MINUTE}
        amounts = {"free": "0.1", "locked": "123456789012345678901234567890.000000000000000001"}
        return (BalanceReading(venue_key=self.venue_key, account="main", asset="USDC", **amounts, **moment),)


def test_a_venue_that_fails_spoils_no_other(ask: Ask, rows: Rows) -> None:
    fetchers = [Fetcher("good"), Fetcher("bad", ConnectionError("https://u:p4ss@bad/x refused")), Fetcher("other")]

    async def snapshot(platform: Platform) -> object:
        return await snapshot_balances(platform.database, platform.settings.network_class, fetchers)

    found = {one.venue_key: one for one in ask(snapshot)}
    assert "refused" in found["bad"].problem
    assert "p4ss" not in found["bad"].problem
    stored = rows("SELECT venue_key, free::text, locked::text FROM qtg.balance_snapshots ORDER BY venue_key")
    assert [row["venue_key"] for row in stored] == ["good", "other"]
    assert stored[0]["locked"] == "123456789012345678901234567890.000000000000000001"
    assert totals(list(found.values())) == {"USDC": "246913578024691357802469135780.200000000000000002"}


def test_each_wallet_counts_once_and_a_missing_one_is_told() -> None:
    def read(wallet: str, free: str, missing: tuple[str, ...] = ()) -> BalanceReading:
        named = {"venue_key": "a", "account": "main", "wallet": wallet, "asset": "USDC", "missing": missing}
        moment = {"request_started_at": MINUTE, "request_ended_at": MINUTE, "complete": not missing}
        return BalanceReading(free=free, **moment, **named)

    earn = ("earn: HTTP_500: no",)
    readings = (read("spot", "1", earn), read("funding", "2", earn), read("spot", "1", earn))
    snapshot = VenueSnapshot("a", readings, 1.0, missing_wallets(readings))
    assert snapshot.problem == "earn: HTTP_500: no"
    assert totals([snapshot, snapshot]) == {"USDC": "3"}
    shown = dict(zip(_COLUMNS, _reading_row(read("spot", "1", earn)), strict=True))
    assert (shown["wallet"], shown["read (UTC)"], shown["all wallets read"]) == ("spot", "2026-03-01 12:30:00", "no")


def test_a_scheduled_tick_becomes_one_run_with_its_window(
    defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance
) -> None:
    schedule = defs.resolve_schedule_def("executor_health")
    given = {"settings": resources.settings, "database": resources.database}
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        [request] = schedule.evaluate_tick(context).run_requests
    assert request.run_key == "2026-03-01T12:30:00Z"
    assert datetime.fromisoformat(request.tags[WINDOW_TAG]) == MINUTE


def test_the_reaper_starts_no_run_for_nothing_and_still_shows_a_sign_of_life(
    defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance, rows: Rows
) -> None:
    schedule = defs.resolve_schedule_def("reap_evm_nonces")
    given = {"settings": resources.settings, "database": resources.database}
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        tick = schedule.evaluate_tick(context)
    assert not tick.run_requests
    assert "no reservation is older" in tick.skip_message
    [beat] = rows("SELECT worker, last_outcome FROM qtg.worker_heartbeats")
    assert beat == {"worker": "evm_nonce_reaper", "last_outcome": "ok"}


def test_a_stale_reservation_starts_the_reaper_which_gives_it_back(
    approved: str,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    ask: Ask,
    launch: Launch,
    rows: Rows,
) -> None:
    async def reserve(platform: Platform) -> None:
        [node] = [row async for row in _nodes(platform)]
        await platform.nonces.reserve(
            chain="eip155:1", sender="0x" + "ab" * 20, request_node_id=node, attempt_no=1, chain_nonce=5
        )
        old = text("UPDATE qtg.evm_nonce_reservation SET reserved_at = now() - interval '1 day'")
        async with platform.database.transaction() as transaction:
            await transaction.execute(old)

    ask(reserve)
    given = {"settings": resources.settings, "database": resources.database}
    with dg.build_schedule_context(instance, scheduled_execution_time=MINUTE, resources=given) as context:
        assert defs.resolve_schedule_def("reap_evm_nonces").evaluate_tick(context).run_requests
    assert launch("reap_evm_nonces").success
    assert rows("SELECT reservation_state FROM qtg.evm_nonce_reservation") == [{"reservation_state": "RELEASED"}]


async def _nodes(platform: Platform) -> AsyncIterator[str]:
    async with platform.database.transaction() as transaction:
        query = text("SELECT id::text FROM qtg.movement_request_nodes WHERE node_key = 'move'")
        for node in (await transaction.execute(query)).scalars():
            yield node
