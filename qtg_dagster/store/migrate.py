"""Bringing a database to the schema this version needs: forward only, one process at a time."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection, Engine

from qtg_dagster.store.roles import GRANT_ROLES
from qtg_dagster.store.schema import SCHEMA
from qtg_dagster.store.schema.retention_functions import FUNCTIONS
from qtg_dagster.store.urls import sqlalchemy_url

DAGSTER_SCHEMA = "dagster"
#: Two 32-bit keys of the advisory lock that lets one process migrate at a time.
MIGRATION_LOCK = {"a": 0x515447, "b": 0}


def _engine(url: str) -> Engine:
    """A role called like our schema has it as its default one, and alembic would then not see our tables."""
    return create_engine(sqlalchemy_url(url), connect_args={"options": "-csearch_path=public"})


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "qtg_dagster.store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def upgrade(url: str) -> None:
    """Apply every pending migration under a lock, and make Dagster's schema; roles get their rights anew each time."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:a, :b)"), MIGRATION_LOCK)
            for schema in (SCHEMA, DAGSTER_SCHEMA):
                connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
            connection.commit()
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            _grant(connection)
            connection.commit()
            connection.execute(text("SELECT pg_advisory_unlock(:a, :b)"), MIGRATION_LOCK)
    finally:
        engine.dispose()


def grant_roles(url: str) -> None:
    """Give the roles that exist by now their rights anew; does nothing as a role that does not own the schema."""
    engine = _engine(url)
    try:
        with engine.begin() as connection:
            owned = "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = :schema"
            if connection.execute(text(owned), {"schema": SCHEMA}).scalar():
                _grant(connection)
    finally:
        engine.dispose()


def _grant(connection: Connection) -> None:
    """Rights belong to the release, not to one migration: they are declared once, and declared again by each run.

    So do the functions that delete: what counts as settled follows the tables that there are.
    """
    for function in FUNCTIONS:
        connection.exec_driver_sql(function.replace("%", "%%"))
    connection.exec_driver_sql(GRANT_ROLES.replace("%", "%%"))
    connection.execute(text(f"SELECT {SCHEMA}.grant_roles()"))


def pending(url: str) -> list[str]:
    """Revisions this version has and the database has not, oldest first."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            current = _current(connection)
    finally:
        engine.dispose()
    scripts = ScriptDirectory.from_config(_config())
    return [script.revision for script in reversed(list(scripts.iterate_revisions("head", current or "base")))]


def check(url: str) -> None:
    """Raise alembic's `CommandError` when the tables declared in `store.schema` need another migration."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            config = _config()
            config.attributes["connection"] = connection
            command.check(config)
    finally:
        engine.dispose()


def _current(connection: Connection) -> str | None:
    exists = connection.execute(text(f"SELECT to_regclass('{SCHEMA}.alembic_version')")).scalar()
    if exists is None:
        return None
    return MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA}).get_current_revision()
