"""Database roles have exactly the rights that are written down, and nobody's is to rewrite what has happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.errors import InsufficientPrivilege

from qtg_dagster import cli
from qtg_dagster.store.migrate import upgrade
from qtg_dagster.store.roles import (
    APP,
    DAGSTER,
    GRANTS,
    OWNERS_FUNCTIONS,
    READONLY,
    RETENTION,
    ROLES,
    SENDER,
    SIGNER,
    markdown,
)
from qtg_dagster.store.schema import metadata
from tests.conftest import as_role

PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
TABLES = sorted(table.name for table in metadata.tables.values())
EVIDENCE = (
    "audit_outbox",
    "audit_events",
    "audit_verifications",
    "movement_node_steps",
    "movement_approvals",
    "ledger_lines",
)


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def refused(url: str, role: str, statement: str) -> None:
    with psycopg.connect(as_role(url, role), autocommit=True) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute(statement)  # type: ignore[call-overload]


@pytest.mark.parametrize("role", [role for role in ROLES if role != DAGSTER])
def test_a_role_has_the_rights_that_are_written_down_and_no_other(
    owner: psycopg.Connection[tuple[object, ...]], role: str
) -> None:
    for table in TABLES:
        held = {
            each
            for each in PRIVILEGES
            if owner.execute("SELECT has_table_privilege(%s, %s, %s)", (role, f"qtg.{table}", each)).fetchone()
            == (True,)
        }
        written = {privilege for privilege, tables in GRANTS[role].items() if table in tables or tables == ("*",)}
        assert held == {each for each in written if " " not in each}, table


@pytest.mark.parametrize("role", list(ROLES))
def test_a_function_that_runs_as_the_owner_is_called_by_those_who_are_named_and_by_nobody_else(
    owner: psycopg.Connection[tuple[object, ...]], role: str
) -> None:
    definers = owner.execute(
        "SELECT proname, has_function_privilege(%s, oid, 'EXECUTE') FROM pg_proc "
        "WHERE pronamespace = 'qtg'::regnamespace AND prosecdef",
        (role,),
    ).fetchall()
    assert {name for name, _ in definers} == set(OWNERS_FUNCTIONS)
    assert {name for name, may in definers if may} == set(GRANTS.get(role, {}).get("EXECUTE", ()))


def test_functions_that_run_as_the_owner_look_nowhere_but_in_the_catalog_for_names(
    owner: psycopg.Connection[tuple[object, ...]],
) -> None:
    found = owner.execute(
        "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = 'qtg'::regnamespace "
        "AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    )
    assert found.fetchall() == []


@pytest.mark.parametrize("role", [APP, SIGNER, SENDER, READONLY, RETENTION])
@pytest.mark.parametrize("table", [*EVIDENCE, "signer_journal", "signer_spends"])
def test_nobody_rewrites_evidence(database_url: str, role: str, table: str) -> None:
    refused(database_url, role, f"DELETE FROM qtg.{table}")  # noqa: S608
    refused(database_url, role, f"TRUNCATE qtg.{table}")
    if (role, table) != (SENDER, "audit_outbox"):
        column = "sequence" if table == "audit_events" else "id"
        refused(database_url, role, f"UPDATE qtg.{table} SET {column} = {column}")  # noqa: S608


def test_the_promoter_marks_an_audit_entry_and_changes_nothing_else_of_it(database_url: str) -> None:
    refused(database_url, SENDER, "UPDATE qtg.audit_outbox SET actor = 'nobody'")
    with psycopg.connect(as_role(database_url, SENDER), autocommit=True) as connection:
        connection.execute("UPDATE qtg.audit_outbox SET promoted_at = now()")


def test_only_signers_write_what_was_signed_and_they_see_nothing_else(database_url: str) -> None:
    for table in ("signer_journal", "signer_spends"):
        refused(database_url, APP, f"INSERT INTO qtg.{table} DEFAULT VALUES")
    refused(database_url, SIGNER, "SELECT 1 FROM qtg.movement_requests")
    with psycopg.connect(as_role(database_url, SIGNER), autocommit=True) as connection:
        connection.execute(
            "INSERT INTO qtg.signer_journal (chain, sender, nonce, request_node_id, role, effect_hash) "
            "VALUES ('eip155:1', '0x1', 0, gen_random_uuid(), 'send#1', 'x')"
        )


@pytest.mark.parametrize("role", list(ROLES))
def test_no_role_changes_the_schema(database_url: str, role: str) -> None:
    refused(database_url, role, "CREATE TABLE qtg.more (id int)")
    refused(database_url, role, "ALTER TABLE qtg.movement_node_steps DISABLE TRIGGER ALL")


def test_a_role_that_gained_rights_by_hand_loses_them_with_the_next_migration_run(
    database_url: str, owner: psycopg.Connection[tuple[object, ...]]
) -> None:
    owner.execute(f"GRANT UPDATE ON qtg.movement_approvals TO {APP}")
    upgrade(database_url)
    refused(database_url, APP, "UPDATE qtg.movement_approvals SET reason = ''")


def test_migrating_what_is_at_head_grants_as_the_owner_and_does_nothing_as_another(
    database_url: str, owner: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.execute(f"REVOKE SELECT ON qtg.runners FROM {APP}")  # noqa: S608 - our own constant
    for url, allowed in ((as_role(database_url, APP), False), (database_url, True)):
        monkeypatch.setenv("DATABASE_URL", url)
        done = CliRunner().invoke(cli.build(), ["migrate"])
        assert (done.exit_code, done.output) == (0, "the database is at the newest migration\n")
        held = owner.execute("SELECT has_table_privilege(%s, 'qtg.runners', 'SELECT')", (APP,)).fetchone()
        assert held == (allowed,)


def test_every_table_is_somebodys() -> None:
    written = {table for tables in GRANTS[APP].values() for table in tables}
    owners = {
        "movement_tombstones",
        "evm_nonce_floors",
    }  # written by the functions of retention, which run as the owner
    assert set(TABLES) - written == {"alert_deliveries", "audit_events", "signer_journal", "signer_spends"} | owners


def test_the_documentation_says_what_is_granted() -> None:
    page = Path(__file__).parents[2] / "docs" / "database-roles.md"
    assert markdown() in page.read_text()
