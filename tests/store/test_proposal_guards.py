"""The database itself keeps what was proposed, lets only declared moves through, and rewrites nobody's word."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import psycopg
import pytest

from qtg_dagster.domain.states import INITIAL_PROPOSAL_STATE, PROPOSAL_MOVES, ProposalState
from qtg_dagster.store.roles import APP
from tests.conftest import as_role

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A plain connection to a database with one version of a template, a proposal and a word on it."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO qtg.movement_templates (template_key) VALUES ('t')")
        connection.execute(
            "INSERT INTO qtg.movement_plan_versions (template_id, version, title, description, graph_hash) "
            "VALUES (1, 1, 't', '', 'h')"
        )
        insert(connection, INITIAL_PROPOSAL_STATE)
        connection.execute(
            "INSERT INTO qtg.template_proposal_decisions (proposal_id, decision, actor, plan_digest, reason) "
            "SELECT id, 'approved', 'grace', 'd', '' FROM qtg.template_proposals"
        )
        yield connection


def insert(connection: Connection, state: str) -> None:
    connection.execute(
        "INSERT INTO qtg.template_proposals (network_class, template_key, based_on, plan, plan_digest, graph_hash, "
        "proposal_state, body_hash, proposed_by, reason, required) "
        "VALUES ('sandbox', 't', 1, '{}', 'd', 'h', %s, 'b', 'ada', 'why', 1)",
        (state,),
    )


#: What goes with each state.
BESIDE = {
    "PENDING": "plan_version_id = NULL, decided_at = NULL",
    "APPROVED": "plan_version_id = 1, decided_at = now()",
    "REJECTED": "plan_version_id = NULL, decided_at = now()",
    "EXPIRED": "plan_version_id = NULL, decided_at = now()",
}


def move(connection: Connection, state: str, beside: str | None = None) -> None:
    beside = beside or BESIDE[state]
    connection.execute(
        f"UPDATE qtg.template_proposals SET proposal_state = %s, {beside}",  # type: ignore[call-overload] # noqa: S608
        (state,),
    )


def test_over_all_pairs_the_database_allows_exactly_the_declared_moves(connection: Connection) -> None:
    allowed, refusals = set(), list[str]()
    for old, new in itertools.permutations(ProposalState, 2):
        connection.execute("ALTER TABLE qtg.template_proposals DISABLE TRIGGER guard_template_proposals")
        move(connection, old)
        connection.execute("ALTER TABLE qtg.template_proposals ENABLE TRIGGER guard_template_proposals")
        try:
            move(connection, new)
        except psycopg.errors.CheckViolation as refused:
            refusals.append(str(refused))
        else:
            allowed.add((old, new))
    assert allowed == {(old, new) for old, targets in PROPOSAL_MOVES.items() for new in targets}
    assert all("may not become" in each for each in refusals)


def test_the_moves_written_in_the_function_are_the_domains(connection: Connection) -> None:
    row = connection.execute("SELECT prosrc FROM pg_proc WHERE proname = 'guard_template_proposals'").fetchone()
    assert row is not None
    found = set(re.findall(r"'([A-Z_]+>[A-Z_]+)'", str(row[0])))
    assert found == {f"{old}>{new}" for old, targets in PROPOSAL_MOVES.items() for new in targets}


@pytest.mark.parametrize("state", [state for state in ProposalState if state is not INITIAL_PROPOSAL_STATE])
def test_a_proposal_begins_pending(connection: Connection, state: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="must begin as PENDING"):
        insert(connection, state)


@pytest.mark.parametrize(
    ("state", "beside", "constraint"),
    [
        ("APPROVED", "decided_at = now()", "a version of something else"),
        ("REJECTED", "decided_at = now(), plan_version_id = 1", "approved_is_published"),
        ("EXPIRED", "decided_at = NULL", "decided_when_not_pending"),
    ],
)
def test_an_end_stands_with_what_it_came_to(connection: Connection, state: str, beside: str, constraint: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        move(connection, state, beside)


OTHER_VERSION = (
    "INSERT INTO qtg.movement_plan_versions (template_id, version, title, description, graph_hash) "
    "VALUES (1, 2, 't', '', 'other')"
)


@pytest.mark.parametrize(
    ("word", "required", "version", "refusal"),
    [
        (("approved", "grace", "d"), 1, 1, None),
        (("approved", "grace", "d"), 2, 1, "1 of 2 approvals by others"),
        (("approved", " ADA ", "d"), 1, 1, "0 of 1 approvals by others"),
        (("approved", "grace", "of something else"), 1, 1, "0 of 1 approvals by others"),
        (("rejected", "grace", "d"), 1, 1, "0 of 1 approvals by others"),
        (("approved", "grace", "d"), 1, 2, "a version of something else"),
    ],
)
def test_nothing_is_approved_without_the_words_of_others_and_as_its_own_version(
    connection: Connection, word: tuple[str, str, str], required: int, version: int, refusal: str | None
) -> None:
    connection.execute("ALTER TABLE qtg.template_proposals DISABLE TRIGGER keep_proposed")
    connection.execute("UPDATE qtg.template_proposals SET required = %s", (required,))
    connection.execute("ALTER TABLE qtg.template_proposals ENABLE TRIGGER keep_proposed")
    connection.execute("ALTER TABLE qtg.template_proposal_decisions DISABLE TRIGGER USER")
    connection.execute("UPDATE qtg.template_proposal_decisions SET decision = %s, actor = %s, plan_digest = %s", word)
    connection.execute("ALTER TABLE qtg.template_proposal_decisions ENABLE TRIGGER USER")
    connection.execute(OTHER_VERSION)
    approved = f"decided_at = now(), plan_version_id = {version}"
    if refusal is None:
        move(connection, "APPROVED", approved)
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match=refusal):
            move(connection, "APPROVED", approved)


@pytest.mark.parametrize(
    "change",
    ["plan = '{\"x\": 1}'", "plan_digest = 'x'", "based_on = 2", "required = 5", "proposed_by = 'eve'", "reason = ''",
     "template_key = 'u'", "network_class = 'mainnet'", "body_hash = 'x'", "graph_hash = 'x'", "created_at = 'epoch'"],
)  # fmt: skip
def test_what_was_proposed_stays_as_it_was_proposed(connection: Connection, change: str, database_url: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not be changed"):
        connection.execute(f"UPDATE qtg.template_proposals SET {change}")  # type: ignore[call-overload] # noqa: S608
    with (
        psycopg.connect(as_role(database_url, APP), autocommit=True) as app,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"),
    ):
        app.execute(f"UPDATE qtg.template_proposals SET {change}")  # type: ignore[call-overload] # noqa: S608


def test_nobodys_word_is_rewritten(connection: Connection) -> None:
    table = "qtg.template_proposal_decisions"
    for statement in (f"UPDATE {table} SET actor = 'x'", f"DELETE FROM {table}"):  # noqa: S608
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            connection.execute(statement)  # type: ignore[call-overload]
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(
            f"INSERT INTO {table} (proposal_id, decision, actor, plan_digest, reason) "  # type: ignore[call-overload] # noqa: S608
            f"SELECT proposal_id, decision, actor, plan_digest, reason FROM {table}"
        )
