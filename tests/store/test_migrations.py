"""Migrations bring a database to exactly the declared tables, once, whoever runs them."""

from __future__ import annotations

import subprocess
import sys

import psycopg
from sqlalchemy import create_engine, text

from qtg_dagster.store import migrate
from qtg_dagster.store.schema import metadata
from qtg_dagster.store.urls import sqlalchemy_url

UPGRADE = "import sys; from qtg_dagster.store.migrate import upgrade; upgrade(sys.argv[1])"

CATALOG = {
    "columns": """
        SELECT table_name || '.' || column_name, data_type, udt_name, is_nullable, column_default, is_identity,
               identity_generation, collation_name
        FROM information_schema.columns WHERE table_schema = 'qtg' AND table_name <> 'alembic_version'
    """,
    "constraints": """
        SELECT conrelid::regclass::text || '.' || conname, contype::text, pg_get_constraintdef(oid), convalidated
        FROM pg_constraint
        WHERE connamespace = 'qtg'::regnamespace AND conrelid <> 'qtg.alembic_version'::regclass AND contype <> 'n'
    """,
    "indexes": """
        SELECT indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'qtg' AND tablename <> 'alembic_version'
    """,
    "functions": """
        SELECT proname, prosrc, prorettype::regtype::text FROM pg_proc WHERE pronamespace = 'qtg'::regnamespace
    """,
    "triggers": """
        SELECT tgrelid::regclass::text || '.' || tgname, pg_get_triggerdef(oid), tgenabled::text
        FROM pg_trigger WHERE NOT tgisinternal
    """,
    "sequences": "SELECT sequencename, data_type::text, increment_by FROM pg_sequences WHERE schemaname = 'qtg'",
}


def catalog(url: str) -> dict[str, dict[str, tuple[object, ...]]]:
    """What the database itself says it consists of."""
    with psycopg.connect(url) as connection:
        return {kind: {row[0]: row[1:] for row in connection.execute(sql)} for kind, sql in CATALOG.items()}


def test_a_fresh_database_has_everything_pending_and_then_nothing(empty_database_url: str) -> None:
    assert migrate.pending(empty_database_url)[0] == "0001"
    migrate.upgrade(empty_database_url)
    assert migrate.pending(empty_database_url) == []


def test_upgrading_again_changes_nothing(database_url: str) -> None:
    before = catalog(database_url)
    migrate.upgrade(database_url)
    assert catalog(database_url) == before


def test_the_declared_tables_need_no_further_migration(database_url: str) -> None:
    migrate.check(database_url)


def test_migrations_and_declarations_build_the_same_database(database_url: str, empty_database_url: str) -> None:
    """Alembic's own comparison sees no changed CHECK, predicate or function: the catalog does."""
    engine = create_engine(sqlalchemy_url(empty_database_url))
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA qtg"))
        connection.execute(text("CREATE TABLE qtg.alembic_version (version_num text)"))
        metadata.create_all(connection)
    engine.dispose()
    migrated, declared = catalog(database_url), catalog(empty_database_url)
    for kind in CATALOG:
        assert migrated[kind] == declared[kind], kind
        assert migrated[kind], kind


def test_many_that_migrate_at_once_apply_each_revision_once(empty_database_url: str) -> None:
    command = [sys.executable, "-c", UPGRADE, empty_database_url]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    errors = [process.communicate(timeout=100)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0], errors
    assert migrate.pending(empty_database_url) == []
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT count(*) FROM qtg.alembic_version").fetchone() == (1,)
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname IN ('qtg', 'dagster') ORDER BY 1")
        assert [row[0] for row in found] == ["dagster", "qtg"]
