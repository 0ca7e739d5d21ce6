"""The deletion job and its check, and what it deletes of Dagster's own tables."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import dagster as dg
import psycopg
import pytest
from psycopg.rows import dict_row

from assets.checks import Finding
from assets.retention import dagster_storage_url, find_backlog, log_remover
from qtg_dagster.composition import Platform
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.retention import Kind, KindReport, Standing
from qtg_dagster.host.dagster_storage import URL_VARIABLE, shared_engine
from qtg_dagster.host.database import dagster_url
from qtg_dagster.host.paths import project_root
from qtg_dagster.settings import Settings, load_settings
from qtg_dagster.store.dagster_retention import DagsterTables
from qtg_dagster.store.database import Database
from qtg_dagster.store.urls import plain_url
from qtg_dagster.upkeep.retention import open_places, retain
from tests.orchestration.shapes import Ask, Launch, Rows

RUN_TABLES = ("runs", "run_tags", "event_logs", "asset_check_executions", "pending_steps")
Query = Callable[..., list[dict[str, Any]]]


@dg.asset(check_specs=[dg.AssetCheckSpec("fine", asset="thing")])
def thing(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
    print("printed")  # noqa: T201 - kept by the compute log manager
    context.log.info("said")
    return dg.MaterializeResult(tags={"colour": "red"}, check_results=[dg.AssetCheckResult(passed=True)])


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["monday", "tuesday"]))
def daily() -> None: ...


@dg.op
def speak(context: dg.OpExecutionContext) -> None:
    context.log.info("spoken")


@dg.job(executor_def=dg.in_process_executor, tags={"of": "speaking"})
def speaking() -> None:
    speak()


@pytest.fixture
def kept(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """An instance on PostgreSQL, by the project's own dagster.yaml, that keeps what its runs print."""
    url = dagster_url(database_url)
    monkeypatch.setenv(URL_VARIABLE, url)
    shutil.copyfile(project_root() / "dagster.yaml", tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        yield made
    shared_engine(url).dispose()


@pytest.fixture
def query(kept: dg.DagsterInstance, database_url: str) -> Iterator[Query]:
    assert kept
    with psycopg.connect(plain_url(dagster_url(database_url)), autocommit=True, row_factory=dict_row) as connection:

        def ask(statement: LiteralString, *bound: object) -> list[dict[str, Any]]:
            cursor = connection.execute(statement, bound or None)
            return cursor.fetchall() if cursor.description else []

        yield ask


def delete(kept: dg.DagsterInstance, database_url: str, **settings: object) -> dict[Kind, KindReport]:
    """One pass."""

    async def work() -> list[KindReport]:
        given = Settings(database_url=database_url, retention_load=1, **settings)
        database = Database(database_url, pool_size=2)
        try:
            async with open_places(given, database, dagster_storage_url(kept), log_remover(kept)) as places:
                return await retain(given, places)
        finally:
            await database.close()

    return {report.kind: report for report in asyncio.run(work())}


def materialize(kept: dg.DagsterInstance) -> str:
    return dg.materialize([thing], instance=kept).run_id


def age(query: Query, *run_ids: str, days: float = 31) -> None:
    """Let runs and all of theirs be so old."""
    for run_id in run_ids:
        query(
            "UPDATE runs SET update_timestamp = (now() - make_interval(secs => %s)) AT TIME ZONE 'UTC', "
            "end_time = extract(epoch FROM now()) - %s WHERE run_id = %s",
            days * 86400,
            days * 86400,
            run_id,
        )


def of_run(query: Query, run_id: str) -> dict[str, int]:
    """Rows that Dagster's tables have of a run."""
    return {
        table: query(f"SELECT count(*) AS n FROM {table} WHERE run_id = %s", run_id)[0]["n"]  # type: ignore[arg-type]  # noqa: S608
        for table in RUN_TABLES
    }


def test_old_runs_go_with_all_that_is_theirs_and_what_they_printed(
    kept: dg.DagsterInstance, query: Query, database_url: str, tmp_path: Path
) -> None:
    old, young, newest = (materialize(kept) for _ in range(3))
    age(query, old)
    age(query, young, days=29.9)
    assert (tmp_path / "storage" / old).is_dir()
    before = of_run(query, young)
    assert all(before[table] for table in ("runs", "event_logs", "asset_check_executions"))
    report = delete(kept, database_url)[Kind.DAGSTER_RUNS]
    assert (report.deleted, report.failed, report.standing) == (1, 0, Standing.CAUGHT_UP)
    assert report.rows["event_logs"] > 5
    assert report.rows["asset_event_tags"] == 1
    assert of_run(query, old) == dict.fromkeys(RUN_TABLES, 0)
    assert of_run(query, young) == before
    assert not (tmp_path / "storage" / old).exists()
    assert (tmp_path / "storage" / young).is_dir()
    assert kept.get_run_by_id(newest) is not None


def test_what_the_web_ui_shows_of_an_asset_stays_however_old(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    runs = [materialize(kept) for _ in range(3)]
    age(query, *runs)
    check = dg.AssetCheckKey(dg.AssetKey("thing"), "fine")
    shown = kept.get_latest_materialization_event(dg.AssetKey("thing"))
    summary = kept.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    assert delete(kept, database_url)[Kind.DAGSTER_RUNS].deleted == 2
    assert [record.dagster_run.run_id for record in kept.get_run_records()] == [runs[-1]]
    assert kept.get_latest_materialization_event(dg.AssetKey("thing")) == shown
    assert kept.fetch_materializations(dg.AssetKey("thing"), limit=9).records[0].run_id == runs[-1]
    found = kept.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    assert (found.id, found.run_id) == (summary.id, runs[-1])
    again = delete(kept, database_url)[Kind.DAGSTER_RUNS]
    assert (again.deleted, again.remaining) == (0, 0)


def test_what_the_web_ui_shows_of_each_partition_stays_however_old(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    days = ("monday", "monday", "tuesday")
    runs = [dg.materialize([daily], instance=kept, partition_key=day).run_id for day in days]
    age(query, *runs)
    assert delete(kept, database_url)[Kind.DAGSTER_RUNS].deleted == 1
    assert {record.dagster_run.run_id for record in kept.get_run_records()} == set(runs[1:])
    assert kept.get_materialized_partitions(dg.AssetKey("daily")) == {"monday", "tuesday"}


def test_a_run_leaves_as_little_as_with_dagster_s_own_deletion_or_less(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    ours, theirs = (speaking.execute_in_process(instance=kept).run_id for _ in range(2))
    before = of_run(query, ours)
    assert before == of_run(query, theirs)
    assert before["run_tags"]
    assert before["event_logs"]
    age(query, ours)
    kept.delete_run(theirs)
    assert delete(kept, database_url)[Kind.DAGSTER_RUNS].deleted == 1
    assert of_run(query, ours) == of_run(query, theirs) == dict.fromkeys(RUN_TABLES, 0)


@pytest.mark.parametrize("status", ["STARTED", "QUEUED", "CANCELING"])
def test_a_run_that_has_not_ended_stays_however_old(
    kept: dg.DagsterInstance, query: Query, database_url: str, status: str
) -> None:
    run_id = speaking.execute_in_process(instance=kept).run_id
    age(query, run_id)
    query("UPDATE runs SET status = %s", status)
    before = of_run(query, run_id)
    assert delete(kept, database_url)[Kind.DAGSTER_RUNS].deleted == 0
    assert of_run(query, run_id) == before


def test_a_run_that_somebody_works_on_is_left_for_later_and_told(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    held, free = (speaking.execute_in_process(instance=kept).run_id for _ in range(2))
    age(query, held, free)
    with psycopg.connect(plain_url(dagster_url(database_url))) as worker:
        worker.execute("SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE", (held,))
        report = delete(kept, database_url)[Kind.DAGSTER_RUNS]
    assert (report.deleted, report.locked, report.remaining) == (1, 1, 1)
    assert report.standing is Standing.BEHIND
    assert of_run(query, held)["event_logs"]
    assert delete(kept, database_url)[Kind.DAGSTER_RUNS].deleted == 1


def test_events_and_checks_without_a_run_go_but_the_newest_of_each(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    for key in ("thing", "other"):
        for _ in range(3):
            kept.report_runless_asset_event(dg.AssetMaterialization(key))
            kept.report_runless_asset_event(dg.AssetCheckEvaluation(dg.AssetKey(key), "fine", passed=True, metadata={}))
    query("DELETE FROM asset_event_tags")
    query(
        "INSERT INTO asset_event_tags (event_id, asset_key, key, value) SELECT id, asset_key, 'colour', 'red' "
        "FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION'"
    )
    query("UPDATE event_logs SET timestamp = timestamp - interval '31 days'")
    query("UPDATE asset_check_executions SET create_timestamp = create_timestamp - interval '31 days'")
    kept.report_runless_asset_event(dg.AssetMaterialization("young"))
    newest = query(
        "SELECT max(id) AS id FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION' GROUP BY asset_key "
        "UNION SELECT max(evaluation_event_storage_id) FROM asset_check_executions GROUP BY asset_key ORDER BY 1"
    )
    checks = query("SELECT max(id) AS id FROM asset_check_executions GROUP BY asset_key, check_name ORDER BY 1")
    reports = delete(kept, database_url)
    assert reports[Kind.DAGSTER_EVENTS].deleted == 8
    assert reports[Kind.DAGSTER_CHECKS].deleted == 4
    assert query("SELECT id FROM event_logs ORDER BY id") == newest
    assert query("SELECT id FROM asset_check_executions ORDER BY id") == checks
    assert query("SELECT count(*) AS n FROM asset_event_tags") == [{"n": 2}]
    check = dg.AssetCheckKey(dg.AssetKey("thing"), "fine")
    assert kept.event_log_storage.get_latest_asset_check_execution_by_key([check])[check].event is not None


def test_old_ticks_go_also_of_sensors_that_are_no_more(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    insert: LiteralString = (
        "INSERT INTO job_ticks (job_origin_id, selector_id, status, type, timestamp, tick_body) "
        "SELECT 'gone', 'gone', 'SUCCESS', 'SENSOR', (now() - make_interval(secs => %s)) AT TIME ZONE 'UTC', '{}' "
        "FROM generate_series(1, %s)"
    )
    query(insert, 31 * 86400, 1200)
    query(insert, 29.9 * 86400, 3)
    assert delete(kept, database_url)[Kind.DAGSTER_TICKS].deleted == 1200
    assert query("SELECT count(*) AS n FROM job_ticks") == [{"n": 3}]


def test_dagsters_tables_are_left_alone_when_they_are_kept(
    kept: dg.DagsterInstance, query: Query, database_url: str
) -> None:
    run_id = speaking.execute_in_process(instance=kept).run_id
    age(query, run_id)
    report = delete(kept, database_url, retention_windows="dagster_runs=keep")[Kind.DAGSTER_RUNS]
    assert (report.deleted, report.standing) == (0, Standing.KEPT)
    assert of_run(query, run_id)["runs"] == 1


def test_a_storage_without_dagsters_tables_is_told_and_stops_nothing(database_url: str) -> None:
    async def look() -> bool:
        database = Database(database_url, pool_size=1)
        try:
            return await DagsterTables(database).present()
        finally:
            await database.close()

    assert not asyncio.run(look())


def old_cycles(rows: Rows, days: float) -> None:
    rows(
        "WITH made AS (INSERT INTO qtg.cycles SELECT 'w', 'sandbox', d::text, now() - make_interval(secs => :age) "
        "FROM generate_series(1, 3) AS d RETURNING 1) SELECT * FROM made",
        age=days * 86400,
    )


def test_the_job_shows_table_by_table_what_went_and_leaves_its_cycle_and_heartbeat(launch: Launch, rows: Rows) -> None:
    old_cycles(rows, 31)
    result = launch("retain")
    assert result.success
    [materialized] = result.get_asset_materialization_events()
    shown = {name: value.value for name, value in materialized.materialization.metadata.items()}
    assert (shown["standing"], shown["deleted"], shown["remaining"], shown["failed"]) == ("caught up", 3, 0, 0)
    assert "| cycles | 30 d | caught up | 3 | 0 | 0 | 0 |" in shown["passes"]
    assert "| dagster_runs | 30 d | absent |" in shown["passes"]
    [beat] = rows("SELECT worker, last_outcome, last_items FROM qtg.worker_heartbeats")
    assert beat == {"worker": "retention", "last_outcome": "ok", "last_items": 3}
    [cycle] = rows("SELECT result -> 'cycles' AS cycles FROM qtg.cycles WHERE worker = 'retention'")
    assert cycle == {"cycles": {"standing": "caught up", "deleted": 3}}
    assert launch("retain").get_asset_materialization_events()[0].materialization.metadata["standing"].value == "quiet"


@pytest.mark.parametrize(("days", "passed"), [(30.9, True), (31.1, False)])
def test_the_check_warns_of_what_a_pass_should_have_deleted_a_day_ago(
    ask: Ask, rows: Rows, days: float, *, passed: bool
) -> None:
    old_cycles(rows, days)
    finding = ask(lambda platform: find_backlog(platform.database, platform.settings))
    assert (finding.passed, finding.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert finding.metadata == ({"standing": "caught up"} if passed else {"cycles": "3 could have gone a day ago"})


def test_the_check_is_quiet_about_what_is_kept_for_good(ask: Ask, rows: Rows) -> None:
    old_cycles(rows, 90)

    async def look(platform: Platform) -> Finding:
        kept = platform.settings.model_copy(update={"retention_windows": "cycles=keep"})
        return await find_backlog(platform.database, kept)

    assert ask(look).passed


@pytest.mark.parametrize("text", ["cycles", "cycles=0", "cycles=1.5", "cycles=", "nothing=3", "cycles=99999999"])
def test_a_window_that_means_nothing_is_refused_by_its_variable_s_name(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("MG_RETENTION_WINDOWS", text)
    with pytest.raises(ConfigurationError, match="MG_RETENTION_WINDOWS"):
        load_settings()


def test_a_dagster_storage_that_is_away_is_told_of_and_stops_nothing_of_ours(database_url: str, rows: Rows) -> None:
    old_cycles(rows, 31)
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"

    async def work() -> list[KindReport]:
        given = Settings(database_url=database_url, retention_load=1)
        database = Database(database_url, pool_size=2)
        try:
            async with open_places(given, database, nowhere, lambda _: None) as places:
                return await retain(given, places)
        finally:
            await database.close()

    reports = {report.kind: report for report in asyncio.run(work())}
    assert reports[Kind.CYCLES].deleted == 3
    assert reports[Kind.DAGSTER_RUNS].standing is Standing.FAILING
    assert "OperationalError" in reports[Kind.DAGSTER_RUNS].problem
