"""Dagster's storage: one pool a process, and an instance file that Dagster accepts."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterInstance
from sqlalchemy.dialects.postgresql.base import PGDialect

from qtg_dagster.host.dagster_storage import URL_VARIABLE, PooledPostgresStorage, shared_engine, storage_url
from qtg_dagster.host.database import dagster_url
from qtg_dagster.host.machine_checks import dagster_storage as doctor_reads_storage
from qtg_dagster.host.paths import project_root
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import Settings
from qtg_dagster.store.migrate import upgrade
from qtg_dagster.store.roles import APP, DAGSTER


@pytest.fixture
def instance(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    """An instance made from the project's own dagster.yaml on a fresh database."""
    url = dagster_url(database_url)
    monkeypatch.setenv(URL_VARIABLE, url)
    with DagsterInstance.from_config(str(project_root())) as made:
        yield made
    shared_engine(url).dispose()


@dg.op
def speak(context: dg.OpExecutionContext) -> None:
    context.log.info("spoken")
    context.log_event(dg.AssetObservation("thing"))


@dg.job(executor_def=dg.in_process_executor)
def speaking() -> None:
    speak()


def test_runs_and_events_are_stored_and_read_back(instance: DagsterInstance) -> None:
    result = speaking.execute_in_process(instance=instance)
    assert result.success
    records = instance.fetch_observations(dg.AssetKey("thing"), limit=5).records
    assert [record.run_id for record in records] == [result.run_id]


def test_all_three_storages_share_one_engine(instance: DagsterInstance) -> None:
    storages: list[Any] = [instance.run_storage, instance.event_log_storage, instance.schedule_storage]
    assert len({id(storage._engine) for storage in storages}) == 1


def test_another_process_makes_the_same_storage_from_the_reference(instance: DagsterInstance) -> None:
    with DagsterInstance.from_ref(instance.get_ref()) as again:
        reference = again.get_ref().storage_data
        assert reference is not None
        assert reference.class_name == PooledPostgresStorage.__name__
        assert again.get_runs_count() == 0


def test_tables_stand_in_dagsters_own_schema(instance: DagsterInstance, database_url: str) -> None:
    import psycopg

    with psycopg.connect(database_url) as connection:
        schemas = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'event_logs'").fetchall()
    assert schemas == [("dagster",)]


def test_a_forked_child_does_not_disturb_its_parents_connections(instance: DagsterInstance) -> None:
    assert instance.get_runs_count() == 0
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = instance.get_runs_count()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert instance.get_runs_count() == 0


def test_a_restart_of_the_server_is_survived(server_in: Callable[[], EmbeddedPostgres]) -> None:
    server = server_in()
    upgrade(server.start())
    storage = PooledPostgresStorage(dagster_url(server.url))
    assert storage.run_storage.get_runs_count() == 0
    server.stop()
    server.start()
    assert storage.run_storage.get_runs_count() == 0
    shared_engine(dagster_url(server.url)).dispose()


def test_doctor_reads_the_storage_as_dagster_does_also_from_a_shell_that_works_as_the_app(
    server_in: Callable[[], EmbeddedPostgres], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("QTG_HOME", str(home))
    server = server_in()
    upgrade(server.start())
    [before] = doctor_reads_storage(Settings(database_url=server.url_of(APP)))
    assert (before.ok, before.detail) == (False, "no tables yet")
    PooledPostgresStorage(dagster_url(server.url_of(DAGSTER)))
    [after] = doctor_reads_storage(Settings(database_url=server.url_of(APP)))
    assert (after.ok, after.detail) == (True, "0 runs")
    shared_engine(dagster_url(server.url_of(DAGSTER))).dispose()


def test_dagsters_own_commands_start_the_embedded_server(
    server_in: Callable[[], EmbeddedPostgres], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("QTG_HOME", str(home))
    server = server_in()
    assert storage_url() == dagster_url(server.url_of(DAGSTER))
    assert server.is_alive()


def test_a_database_url_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("DATABASE_URL", "postgres://u@h/d")
    assert storage_url() == "postgresql+psycopg2://u@h/d?options=-csearch_path%3Ddagster"


def test_connections_that_the_server_has_ended_are_not_used_again(instance: DagsterInstance, database_url: str) -> None:
    import psycopg

    assert instance.get_runs_count() == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert ended is not None
    assert ended[0] > 0
    assert instance.get_runs_count() == 0


def test_what_one_instance_learned_of_the_tables_no_other_asks_again(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.all_instigator_state()
    asked: list[object] = []
    real = PGDialect.get_table_names
    monkeypatch.setattr(
        PGDialect, "get_table_names", lambda *given, **more: asked.append(given) or real(*given, **more)
    )
    with DagsterInstance.from_ref(instance.get_ref()) as again:
        assert again.all_instigator_state() == []
        assert again.get_runs_count() == 0
    assert asked == []
