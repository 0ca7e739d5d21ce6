"""The database lets transfers and CCIP sends make declared moves only, raw SQL included."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from enum import StrEnum

import psycopg
import pytest

from qtg_dagster.domain.capital_transfers import FINAL_TRANSFER_STATES, TRANSFER_MOVES, TransferState
from qtg_dagster.domain.ccip_sends import SEND_MOVES, SendState
from tests.store.test_guards import connection as movement_connection

Connection = psycopg.Connection[tuple[object, ...]]
__all__ = ["movement_connection"]

TRANSFER = (
    "INSERT INTO qtg.capital_transfer_requests (network_class, transfer_state, source, destination, asset, decimals, "
    "base_units, reason, requested_by, body_hash) "
    "VALUES ('sandbox', %s, 'account:a', 'account:b', 'USDC', 6, 1, '', 'ada', 'h')"
)
SEND = (
    "INSERT INTO qtg.ccip_send_intent (network_class, request_node_id, attempt_no, send_state, source_chain, "
    "destination_selector, router, sender, message_id) "
    "SELECT 'sandbox', id, 1, %s, 'eip155:1', 15971525489660198786, '0xr', '0xs', 'm' FROM qtg.movement_request_nodes"
)


@pytest.fixture
def connection(movement_connection: Connection) -> Connection:
    """One transfer and one send beside the movement of the other guards' tests."""
    movement_connection.execute(TRANSFER, ("REQUESTED",))
    movement_connection.execute(SEND, ("INTENT",))
    return movement_connection


def said(table: str, state: str) -> str:
    """SQL that brings a row to a state with all that the state must come with."""
    if table == "capital_transfer_requests":
        finished = "now()" if state in FINAL_TRANSFER_STATES else "NULL"
        return (
            f"transfer_state = '{state}', attention_kind = 'ended', attention = 'x', attention_since = now(), "
            f"finished_at = {finished}"
        )
    end = ("'took_effect'", "1") if state == SendState.RESOLVED else ("NULL", "NULL")
    attention = "'look'" if state == SendState.STRANDED else "NULL"
    return f"send_state = '{state}', resolution = {end[0]}, evidence_step_id = {end[1]}, attention = {attention}"


def judged(connection: Connection, table: str, old: str, new: str) -> bool:
    """Whether the database lets raw SQL make this move."""
    connection.execute(f"ALTER TABLE qtg.{table} DISABLE TRIGGER guard_{table}")  # type: ignore[call-overload]
    connection.execute(f"UPDATE qtg.{table} SET {said(table, old)}")  # type: ignore[call-overload]  # noqa: S608
    connection.execute(f"ALTER TABLE qtg.{table} ENABLE TRIGGER guard_{table}")  # type: ignore[call-overload]
    try:
        connection.execute(f"UPDATE qtg.{table} SET {said(table, new)}")  # type: ignore[call-overload]  # noqa: S608
    except psycopg.errors.CheckViolation as refused:
        return f"{old} may not become {new}" not in str(refused)
    return True


TABLES = [("capital_transfer_requests", TRANSFER_MOVES, TransferState), ("ccip_send_intent", SEND_MOVES, SendState)]


@pytest.mark.parametrize(("table", "moves", "states"), TABLES)
def test_over_all_pairs_the_database_allows_exactly_the_declared_moves(
    connection: Connection, table: str, moves: Mapping[str, frozenset[str]], states: type[StrEnum]
) -> None:
    pairs = [(old, new) for old, new in itertools.product(states, states) if old is not new]
    allowed = {(old, new) for old, new in pairs if judged(connection, table, old, new)}
    assert allowed == {(old, new) for old, targets in moves.items() for new in targets}


@pytest.mark.parametrize(("table", "moves", "states"), TABLES)
def test_the_moves_written_in_the_function_are_the_domains(
    connection: Connection, table: str, moves: Mapping[str, frozenset[str]], states: type[StrEnum]
) -> None:
    row = connection.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", (f"guard_{table}",)).fetchone()
    assert row is not None
    assert set(re.findall(r"'([A-Z_]+>[A-Z_]+)'", str(row[0]))) == {f"{o}>{n}" for o, ns in moves.items() for n in ns}


@pytest.mark.parametrize(
    ("insert", "state", "initial"),
    [(TRANSFER, state, "REQUESTED") for state in TransferState if state != "REQUESTED"]
    + [(SEND, state, "INTENT") for state in SendState if state != "INTENT"],
)
def test_a_row_begins_at_the_beginning(connection: Connection, insert: str, state: str, initial: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=f"must begin as {initial}"):
        connection.execute(insert, (state,))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("capital_transfer_requests SET base_units = 0", "moves_something"),
        ("capital_transfer_requests SET destination = source", "goes_elsewhere"),
        ("capital_transfer_requests SET attention = 'x'", "attention_is_whole"),
        ("capital_transfer_requests SET finished_at = now()", "ends_have_a_time"),
        ("capital_transfer_requests SET transfer_state = 'NEEDS_ATTENTION'", "attention_is_explained"),
        ("capital_transfer_requests SET idempotency_key = ''", "idempotency_key_not_empty"),
        ("ccip_send_intent SET send_state = 'RESOLVED'", "end_has_evidence"),
        ("ccip_send_intent SET send_state = 'STRANDED'", "stranded_is_explained"),
        ("ccip_send_intent SET send_state = 'SENT', message_id = NULL", "sent_has_message"),
        ("ccip_send_intent SET destination_selector = 18446744073709551616", "selector_fits"),
    ],
)
def test_a_row_says_all_that_its_state_means(connection: Connection, change: str, constraint: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        connection.execute(f"UPDATE qtg.{change}")  # type: ignore[call-overload]


def test_a_resolved_send_names_a_step_that_exists(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(
            "UPDATE qtg.ccip_send_intent "
            "SET send_state = 'RESOLVED', resolution = 'took_effect', evidence_step_id = 404"
        )
