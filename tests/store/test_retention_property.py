"""Whatever stands in the tables: a pass deletes the movements that may go, whole, touches no other and moves no sum."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from qtg_dagster.store.roles import RETENTION
from tests.conftest import as_role
from tests.recycling import wipe

Connection = psycopg.Connection[dict[str, Any]]
FINAL = ("COMPLETED", "REJECTED", "EXPIRED", "CANCELLED")


@dataclass(frozen=True)
class Tree:
    """One movement as it may stand."""

    days: float
    state: str
    nodes: int
    callback: str | None
    audited: bool
    money: str | None
    nonce: str | None
    held: str | None  # the table of which somebody holds a row of it

    @property
    def settled(self) -> bool:
        return (
            self.state in FINAL
            and self.callback in (None, "delivered")
            and self.audited
            and self.money != "in transit"
            and self.nonce != "RESERVED"
            and not (self.nonce == "BOUND" and self.state != "COMPLETED")
        )

    @property
    def goes(self) -> bool:
        return self.settled and self.days > 30 and self.held is None


TREES = st.builds(
    Tree,
    days=st.sampled_from([1.0, 29.9, 30.1, 90.0]),
    state=st.sampled_from([*FINAL, "COMPLETED", "COMPLETED", "FAILED", "EXECUTING"]),
    nodes=st.integers(1, 3),
    callback=st.sampled_from([None, "delivered", "delivered", "pending", "dlq"]),
    audited=st.sampled_from([True, True, True, False]),
    money=st.sampled_from([None, "arrived", "arrived", "in transit"]),
    nonce=st.sampled_from([None, None, "BOUND", "RELEASED", "RESERVED"]),
    held=st.sampled_from([None, None, None, "movement_requests", "movement_request_nodes"]),
)

_GUARDED: tuple[LiteralString, ...] = ("movement_requests", "movement_request_nodes", "movement_node_attempts")
_PLAN: LiteralString = """
    WITH template AS (INSERT INTO qtg.movement_templates (template_key) VALUES ('t') RETURNING id),
    version AS (
        INSERT INTO qtg.movement_plan_versions (template_id, version, title, description, graph_hash)
        SELECT id, 1, 't', '', 'h' FROM template RETURNING id
    ),
    INSERTED AS (
        INSERT INTO qtg.movement_plan_nodes (plan_version_id, position, node_key, node_kind, action_type)
        SELECT id, 1, 'n', 'action', 'move' FROM version RETURNING id
    )
    SELECT (SELECT id FROM version) AS version, (SELECT id FROM inserted) AS node
"""
#: Every table that a movement's rows stand in, with what says whose they are.
OWNED: dict[str, LiteralString] = {
    "requests": "SELECT id AS request FROM qtg.movement_requests",
    "nodes": "SELECT request_id AS request FROM qtg.movement_request_nodes",
    "callbacks": "SELECT request_id AS request FROM qtg.movement_callback_outbox",
    "approvals": "SELECT request_id AS request FROM qtg.movement_approvals",
    "steps": "SELECT n.request_id AS request FROM qtg.movement_node_steps s "
    "LEFT JOIN qtg.movement_request_nodes n ON n.id = s.request_node_id",
    "attempts": "SELECT n.request_id AS request FROM qtg.movement_node_attempts a "
    "LEFT JOIN qtg.movement_request_nodes n ON n.id = a.request_node_id",
    "nonces": "SELECT n.request_id AS request FROM qtg.evm_nonce_reservation v "
    "LEFT JOIN qtg.movement_request_nodes n ON n.id = v.request_node_id",
}


def build(owner: Connection, trees: list[Tree]) -> list[str]:
    """The movements' rows, by plain SQL; their ids."""
    ids: list[str] = []
    with owner.transaction():
        for table in _GUARDED:
            owner.execute(f"ALTER TABLE qtg.{table} DISABLE TRIGGER USER")
        plan = owner.execute(_PLAN).fetchone()
        assert plan is not None
        for number, tree in enumerate(trees):
            ids.append(_build_one(owner, number, tree, plan["version"], plan["node"]))
        for table in _GUARDED:
            owner.execute(f"ALTER TABLE qtg.{table} ENABLE TRIGGER USER")
    return ids


def _build_one(owner: Connection, number: int, tree: Tree, version: int, plan_node: int) -> str:
    request = str(uuid.uuid4())
    finished = tree.days if tree.state in FINAL else None
    owner.execute(
        "INSERT INTO qtg.movement_requests (id, network_class, plan_version_id, request_state, idempotency_key, "
        "body_hash, compiled_plan_hash, approval_digest, requested_by, reason, finished_at) VALUES (%s, 'sandbox', %s, "
        "%s, %s, 'b', 'c', 'd', 'ada', '', now() - make_interval(secs => %s))",
        (request, version, tree.state, f"key {number}", finished * 86400 if finished else None),
    )
    owner.execute(
        "INSERT INTO qtg.movement_approvals (request_id, decision, actor, compiled_plan_hash, approval_digest, reason) "
        "VALUES (%s, 'approved', 'grace', 'c', 'd', '')",
        (request,),
    )
    for place in range(tree.nodes):
        node = str(uuid.uuid4())
        done = "COMPLETED" if tree.state == "COMPLETED" else "CANCELLED"
        owner.execute(
            "INSERT INTO qtg.movement_request_nodes (id, request_id, plan_node_id, node_key, node_kind, node_state, "
            "attempt_no) VALUES (%s, %s, %s, %s, 'action', 'CANCELLED', 1)",
            (node, request, plan_node, f"n{place}"),
        )
        owner.execute(
            "WITH step AS (INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind) "
            "VALUES (%(node)s, 1, 'outcome') RETURNING id) "
            "INSERT INTO qtg.movement_node_attempts (request_node_id, attempt_no, idempotency_key, prepared, "
            "payload_hash, outcome_step_id) SELECT %(node)s, 1, %(node)s, '{}', 'p', id FROM step",
            {"node": node},
        )
        owner.execute(
            "UPDATE qtg.movement_request_nodes SET node_state = %s, evidence_step_id = "
            "(SELECT max(id) FROM qtg.movement_node_steps WHERE request_node_id = %s) WHERE id = %s",
            (done, node, node),
        )
        if place == 0:
            _build_money_and_nonce(owner, number, tree, request, node)
    if tree.callback is not None:
        owner.execute(
            "INSERT INTO qtg.movement_callback_outbox (request_id, event_type, callback_url, status, delivered_at) "
            "VALUES (%s, 'request_state_changed', 'https://x', %s, now())",
            (request, tree.callback),
        )
    owner.execute(
        "INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, promoted_at) "
        "VALUES ('sandbox', 'ada', 'create', 'movement_request', %s, CASE WHEN %s THEN now() END)",
        (request, tree.audited),
    )
    return request


def _build_money_and_nonce(owner: Connection, number: int, tree: Tree, request: str, node: str) -> None:
    transit = f"transit:{request}"
    lines = {"departure": ("home", transit), "arrival": (transit, "away")}
    for kind, (source, target) in lines.items():
        if tree.money is not None and (kind == "departure" or tree.money == "arrived"):
            owner.execute(
                "INSERT INTO qtg.ledger_lines (request_id, request_node_id, attempt_no, entry_kind, from_account, "
                "to_account, asset, decimals, base_units) VALUES (%s, %s, 1, %s, %s, %s, 'USDC', 6, %s)",
                (request, node, kind, source, target, number + 1),
            )
    if tree.nonce is not None:  # a sender for each: no nonce proves another's use
        owner.execute(
            "INSERT INTO qtg.evm_nonce_reservation (chain, sender, nonce, request_node_id, attempt_no, "
            "reservation_state, payload_hash) VALUES ('eip155:1', %s, %s, %s, 1, %s, 'p')",
            (f"0x{number:040x}", number, node, tree.nonce),
        )


def standing(owner: Connection) -> dict[str, dict[str | None, int]]:
    """Table -> movement -> rows; rows of nobody are under None."""
    found: dict[str, dict[str | None, int]] = {}
    for table, rows in OWNED.items():
        counts = owner.execute(f"SELECT request::text AS request, count(*) AS n FROM ({rows}) AS r GROUP BY 1")  # noqa: S608
        found[table] = {row["request"]: row["n"] for row in counts}
    return found


def books(owner: Connection) -> list[dict[str, Any]]:
    return owner.execute(
        "SELECT account, sum(units) AS units FROM (SELECT to_account AS account, base_units AS units FROM "
        "qtg.ledger_lines UNION ALL SELECT from_account, -base_units FROM qtg.ledger_lines) AS side "
        "GROUP BY 1 ORDER BY 1"
    ).fetchall()


def one_pass(retention: Connection, batch: int) -> int:
    """Deletes until the end; how many movements went."""
    at, last, deleted = "-infinity", str(uuid.UUID(int=0)), 0
    while True:
        row = retention.execute(
            "SELECT examined, deleted, failed, problem, last_at::text AS at, last_id::text AS id "
            "FROM qtg.retain_movements('30 days', %s, %s, %s)",
            (at, last, batch),
        ).fetchone()
        assert row is not None
        assert (row["failed"], row["problem"]) == (0, None)
        at, last, deleted = row["at"], row["id"], deleted + row["deleted"]
        if row["examined"] < batch:
            return deleted


@pytest.fixture
def owner(shared_database_url: str) -> Iterator[Connection]:
    with psycopg.connect(shared_database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees=st.lists(TREES, min_size=1, max_size=8), batch=st.integers(1, 5))
def test_after_any_pass_nothing_is_orphaned_nothing_unsettled_is_touched_and_no_sum_has_moved(
    owner: Connection, shared_database_url: str, trees: list[Tree], batch: int
) -> None:
    wipe(shared_database_url)
    ids = build(owner, trees)
    before, sums = standing(owner), books(owner)
    going = {request for request, tree in zip(ids, trees, strict=True) if tree.goes}
    with ExitStack() as stack:
        held = stack.enter_context(psycopg.connect(shared_database_url))
        for request, tree in zip(ids, trees, strict=True):
            if tree.held is not None:
                column = "id" if tree.held == "movement_requests" else "request_id"
                held.execute(f"SELECT 1 FROM qtg.{tree.held} WHERE {column} = %s FOR NO KEY UPDATE", (request,))  # type: ignore[arg-type]  # noqa: S608
        retention = stack.enter_context(
            psycopg.connect(as_role(shared_database_url, RETENTION), autocommit=True, row_factory=dict_row)
        )
        assert one_pass(retention, batch) == len(going)
        assert standing(owner) == {
            table: {request: count for request, count in counts.items() if request not in going}
            for table, counts in before.items()
        }
        assert books(owner) == sums
        held.rollback()
        later = {request for request, tree in zip(ids, trees, strict=True) if tree.settled and tree.days > 30}
        assert one_pass(retention, batch) == len(later - going)
    stones = owner.execute("SELECT request_id::text AS id, idempotency_key AS key FROM qtg.movement_tombstones")
    assert {row["id"]: row["key"] for row in stones} == {
        request: f"key {number}" for number, request in enumerate(ids) if request in later
    }
