"""The database itself refuses illegal moves and rewritten history, raw SQL included."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import psycopg
import pytest

from qtg_dagster.domain.states import (
    EVIDENCED_NODE_STATES,
    INITIAL_NODE_STATE,
    INITIAL_REQUEST_STATE,
    NODE_MOVES,
    REQUEST_MOVES,
    NodeState,
    RequestState,
)

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A plain connection to a database with one movement of one node and one row in every append-only table."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO qtg.movement_templates (template_key) VALUES ('t')")
        connection.execute(
            "INSERT INTO qtg.movement_plan_versions (template_id, version, title, description, graph_hash) "
            "VALUES (1, 1, 't', '', 'h')"
        )
        connection.execute(
            "INSERT INTO qtg.movement_plan_nodes (plan_version_id, position, node_key, node_kind, action_type) "
            "VALUES (1, 0, 'n', 'action', 'move')"
        )
        insert_request(connection, INITIAL_REQUEST_STATE)
        insert_node(connection, INITIAL_NODE_STATE)
        connection.execute(
            "INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind) "
            "SELECT id, 0, 'operator' FROM qtg.movement_request_nodes"
        )
        connection.execute(
            "INSERT INTO qtg.movement_approvals (request_id, decision, actor, compiled_plan_hash, approval_digest, "
            "reason) SELECT id, 'approved', 'grace', 'h', 'd', '' FROM qtg.movement_requests"
        )
        connection.execute(
            "INSERT INTO qtg.audit_events (outbox_id, network_class, sequence, actor, action, subject_type, "
            "subject_id, previous_hash, row_hash) "
            "VALUES (1, 'sandbox', 1, 'ada', 'create', 'x', 'y', repeat('0', 64), repeat('a', 64))"
        )
        connection.execute(
            "INSERT INTO qtg.signer_journal (chain, sender, nonce, request_node_id, role, effect_hash) "
            "VALUES ('eip155:1', '0x', 1, gen_random_uuid(), 'desk', 'h')"
        )
        yield connection


def insert_request(connection: Connection, state: str) -> None:
    connection.execute(
        "INSERT INTO qtg.movement_requests (network_class, plan_version_id, request_state, body_hash, "
        "compiled_plan_hash, approval_digest, requested_by, reason) "
        "VALUES ('sandbox', 1, %s, 'b', 'h', 'd', 'ada', '')",
        (state,),
    )


def insert_node(connection: Connection, state: str, key: str = "n") -> None:
    connection.execute(
        "INSERT INTO qtg.movement_request_nodes (request_id, plan_node_id, node_key, node_kind, node_state) "
        "SELECT id, 1, %s, 'action', %s FROM qtg.movement_requests LIMIT 1",
        (key, state),
    )


def put_in_state(connection: Connection, table: str, column: str, state: str) -> None:
    """Past the guard, as only the owner of the table can."""
    evidence = ", evidence_step_id = 1" if table == "movement_request_nodes" else ""
    connection.execute(f"ALTER TABLE qtg.{table} DISABLE TRIGGER guard_{table}")
    connection.execute(f"UPDATE qtg.{table} SET {column} = %s{evidence}", (state,))  # noqa: S608
    connection.execute(f"ALTER TABLE qtg.{table} ENABLE TRIGGER guard_{table}")


def judged(connection: Connection, table: str, column: str, old: str, new: str) -> bool:
    """Whether the database lets raw SQL make this move."""
    put_in_state(connection, table, column, old)
    try:
        connection.execute(f"UPDATE qtg.{table} SET {column} = %s", (new,))  # noqa: S608
    except psycopg.errors.CheckViolation:
        return False
    return True


@pytest.mark.parametrize(
    ("table", "column", "moves", "states"),
    [
        ("movement_request_nodes", "node_state", NODE_MOVES, NodeState),
        ("movement_requests", "request_state", REQUEST_MOVES, RequestState),
    ],
)
def test_over_all_pairs_the_database_allows_exactly_the_declared_moves(
    connection: Connection, table: str, column: str, moves: Mapping[str, frozenset[str]], states: type[NodeState]
) -> None:
    pairs = [(old, new) for old, new in itertools.product(states, states) if old is not new]
    allowed = {(old, new) for old, new in pairs if judged(connection, table, column, old, new)}
    assert allowed == {(old, new) for old, targets in moves.items() for new in targets}


@pytest.mark.parametrize(
    ("table", "moves"), [("movement_request_nodes", NODE_MOVES), ("movement_requests", REQUEST_MOVES)]
)
def test_the_moves_written_in_the_function_are_the_domains(
    connection: Connection, table: str, moves: Mapping[str, frozenset[str]]
) -> None:
    row = connection.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", (f"guard_{table}",)).fetchone()
    assert row is not None
    assert set(re.findall(r"'([A-Z_]+>[A-Z_]+)'", str(row[0]))) == {f"{o}>{n}" for o, ns in moves.items() for n in ns}


def test_every_move_counts_and_nothing_else_does(connection: Connection) -> None:
    for table, column, state in (
        ("movement_request_nodes", "node_state", "READY"),
        ("movement_requests", "request_state", "APPROVED"),
    ):
        connection.execute(f"UPDATE qtg.{table} SET {column} = {column}, state_version = state_version")  # noqa: S608
        connection.execute(f"UPDATE qtg.{table} SET {column} = %s, state_version = 99", (state,))  # noqa: S608
        assert connection.execute(f"SELECT state_version FROM qtg.{table}").fetchone() == (1,)  # noqa: S608


@pytest.mark.parametrize("state", [state for state in NodeState if state is not INITIAL_NODE_STATE])
def test_a_node_begins_blocked(connection: Connection, state: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="must begin as BLOCKED"):
        insert_node(connection, state, "other")


@pytest.mark.parametrize("state", [state for state in RequestState if state is not INITIAL_REQUEST_STATE])
def test_a_request_begins_pending(connection: Connection, state: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="must begin as PENDING_APPROVAL"):
        insert_request(connection, state)


@pytest.mark.parametrize("state", sorted(EVIDENCED_NODE_STATES))
def test_an_end_needs_its_evidence(connection: Connection, state: str) -> None:
    connection.execute("UPDATE qtg.movement_request_nodes SET node_state = 'READY'")
    with pytest.raises(psycopg.errors.CheckViolation, match="terminal_has_evidence"):
        connection.execute("UPDATE qtg.movement_request_nodes SET node_state = %s", (state,))
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute("UPDATE qtg.movement_request_nodes SET node_state = %s, evidence_step_id = 404", (state,))
    connection.execute("UPDATE qtg.movement_request_nodes SET node_state = %s, evidence_step_id = 1", (state,))


@pytest.mark.parametrize(
    ("table", "column"),
    [("movement_node_steps", "actor"), ("movement_approvals", "reason"), ("audit_events", "actor"),
     ("signer_journal", "effect_hash")],
)  # fmt: skip
def test_history_is_not_rewritten(connection: Connection, table: str, column: str) -> None:
    for statement in (f"UPDATE qtg.{table} SET {column} = 'x'", f"DELETE FROM qtg.{table}"):  # noqa: S608
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            connection.execute(statement)
    assert connection.execute(f"SELECT count(*) FROM qtg.{table}").fetchone() == (1,)  # noqa: S608


def test_empty_identities_are_refused(connection: Connection) -> None:
    for statement in (
        "UPDATE qtg.movement_requests SET idempotency_key = ''",
        "UPDATE qtg.movement_requests SET requested_by = ''",
        "INSERT INTO qtg.movement_templates (template_key) VALUES ('')",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(statement)
