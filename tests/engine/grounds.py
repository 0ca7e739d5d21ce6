"""What the model's days happen on: a store, its clock, and a look at what is stored that passes by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString, Protocol

import psycopg
from psycopg.rows import dict_row

from qtg_dagster.domain.clock import Clock, SystemClock
from qtg_dagster.domain.contract import ADOPTED_REF
from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.work import Claim
from qtg_dagster.engine.ports import Runner, Store
from qtg_dagster.store.database import Database
from qtg_dagster.store.ledger import verify_ledger
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.roles import APP
from qtg_dagster.store.runners import Runner as PostgresRunner
from tests.conftest import as_role
from tests.engine.memory import Away, MemoryRunner, MemoryStore

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a node stands, as far as claims and writes depend on it."""

    node_state: str
    runner_id: int | None
    held: bool  # by a runner that lives
    claim_epoch: int
    serialization_key: str | None
    in_flight_key: str | None
    begins: bool  # its movement starts nodes

    def is_of(self, claim: Claim) -> bool:
        return (self.runner_id, self.claim_epoch) == (claim.runner_id, claim.claim_epoch)


BEGINNING = frozenset({"APPROVED", "EXECUTING"})
UNSETTLED = frozenset({"SUBMITTING", "SUBMITTED", "OBSERVING", "UNKNOWN"})
#: Base units that each action of the model moves.
UNITS = 12_500_000


class Ground(Protocol):
    """One store and what a test may do behind the engine's back."""

    store: Store
    clock: Clock
    away: Exception  # what a lost connection raises

    def advance(self, seconds: float) -> None:
        """Let time pass for everything that is due."""
        ...

    def cut(self, runner: Runner) -> None:
        """End a runner's session; its process does not know."""
        ...

    def request_state(self, request_id: str) -> str: ...

    def forget(self, request_id: str) -> None:
        """Delete the rows of a movement that is over, as retention does."""
        ...

    def nodes(self, request_id: str) -> list[Row]:
        """What `model.check_nodes` and `model.check_journal` judge."""
        ...

    def board(self) -> dict[str, Place]:
        """Node id -> place, of all nodes."""
        ...

    def standing(self, node_id: str) -> Any:
        """All of a node that a fenced write must leave alone."""
        ...

    def fenced(self, claim: Claim) -> bool:
        """Whether the journal has a fenced write under this claim."""
        ...

    async def check_books(self, request_id: str, actions: set[str]) -> None:
        """Raise unless the money of a movement is where its nodes say; `actions` are those that move some."""
        ...

    async def close(self) -> None: ...


class MemoryGround:
    """A store in memory."""

    away: Exception = Away("the store cannot be reached")

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = self.store.clock

    def advance(self, seconds: float) -> None:
        self.store.clock.advance(seconds)

    def cut(self, runner: Runner) -> None:
        assert isinstance(runner, MemoryRunner)
        runner.kill()

    def request_state(self, request_id: str) -> str:
        return str(self.store.requests[request_id].request_state)

    def forget(self, request_id: str) -> None:
        self.store.forget(request_id)

    def nodes(self, request_id: str) -> list[Row]:
        attempts = self.store.attempts.items()
        return [
            {
                "id": node.node_id,
                "node_key": node.node_key,
                "node_state": str(node.node_state),
                "evidence_to": node.evidence.to_state if node.evidence else None,
                "evidence_of": node.evidence.node_id if node.evidence else None,
                "things": {
                    *(attempt.idempotency_key for (of, _), attempt in attempts if of == node.node_id),
                    *([node.provider_refs[ADOPTED_REF]] if ADOPTED_REF in node.provider_refs else []),
                },
                "moves": [
                    (step.from_state, step.to_state)
                    for step in self.store.journal
                    if step.node_id == node.node_id and step.to_state is not None
                ],
                "in_flight_key": node.in_flight_key,
                "attempt_no": node.attempt_no,
            }
            for node in self.store.nodes_of(request_id)
        ]

    def board(self) -> dict[str, Place]:
        failed = {node.request_id for node in self.store.nodes.values() if node.node_state == "FAILED"}
        return {
            node.node_id: Place(
                node_state=str(node.node_state),
                runner_id=node.runner_id,
                held=node.runner_id in self.store.alive,
                claim_epoch=node.claim_epoch,
                serialization_key=node.serialization_key,
                in_flight_key=node.in_flight_key,
                begins=self.request_state(node.request_id) in BEGINNING and node.request_id not in failed,
            )
            for node in self.store.nodes.values()
        }

    def standing(self, node_id: str) -> Any:
        return repr(self.store.nodes[node_id])

    def fenced(self, claim: Claim) -> bool:
        return any(
            step.step_kind is StepKind.FENCED
            and (step.node_id, step.runner_id, step.claim_epoch) == (claim.node_id, claim.runner_id, claim.claim_epoch)
            for step in self.store.journal
        )

    async def check_books(self, request_id: str, actions: set[str]) -> None:
        """No books are kept in memory."""

    async def close(self) -> None:
        """Nothing is open."""


_NODES = """
    SELECT n.id::text AS id, n.node_key, n.node_state, e.to_state AS evidence_to, n.in_flight_key, n.attempt_no,
           e.request_node_id::text AS evidence_of, n.provider_refs ->> 'adopted_reference' AS adopted,
           ARRAY(SELECT a.idempotency_key FROM qtg.movement_node_attempts a WHERE a.request_node_id = n.id) AS keys,
           coalesce((SELECT jsonb_agg(jsonb_build_array(s.from_state, s.to_state) ORDER BY s.id)
            FROM qtg.movement_node_steps s
            WHERE s.request_node_id = n.id AND s.to_state IS NOT NULL), '[]'::jsonb) AS moves
    FROM qtg.movement_request_nodes n
    LEFT JOIN qtg.movement_node_steps e ON e.id = n.evidence_step_id
    WHERE n.request_id = %s
    ORDER BY n.plan_node_id
"""
_STANDING = """
    SELECT node_state, state_version, looks, error_code, provider_refs::text, next_look_at, runner_id, claim_epoch
    FROM qtg.movement_request_nodes WHERE id = %s
"""
_BOARD = """
    SELECT n.id::text AS id, n.node_state, n.runner_id, n.claim_epoch, n.serialization_key, n.in_flight_key,
           coalesce(n.runner_id IN (SELECT runner_id FROM qtg.live_runners), false) AS held,
           r.request_state IN ('APPROVED', 'EXECUTING') AND NOT EXISTS (
               SELECT 1 FROM qtg.movement_request_nodes f
               WHERE f.request_id = r.id AND f.node_state = 'FAILED') AS begins
    FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
"""
_FENCED = """
    SELECT 1 FROM qtg.movement_node_steps
    WHERE step_kind = 'fenced' AND request_node_id = %s AND runner_id = %s AND claim_epoch = %s
"""
_HELD = """
    SELECT split_part(account, ':', 1) AS kind, sum(units)::bigint AS units FROM (
        SELECT to_account AS account, base_units AS units, request_id FROM qtg.ledger_lines
        UNION ALL SELECT from_account, -base_units, request_id FROM qtg.ledger_lines) AS side
    WHERE request_id = %s AND account <> 'chain:eip155:1:0xallowed' GROUP BY 1
"""


_NOBODY = "00000000-0000-0000-0000-000000000000"
_SETTLE: tuple[LiteralString, ...] = (
    "UPDATE qtg.movement_callback_outbox SET status = 'delivered', delivered_at = now()",
    "UPDATE qtg.audit_outbox SET promoted_at = now() WHERE promoted_at IS NULL",
)
_AGE: LiteralString = (
    "UPDATE qtg.movement_requests SET finished_at = now() - interval '31 days' WHERE finished_at IS NOT NULL"
)


class PostgresGround:
    """A migrated, empty database."""

    away: Exception = psycopg.OperationalError("the server closed the connection unexpectedly")

    def __init__(self, url: str) -> None:
        self._database = Database(as_role(url, APP), pool_size=5)
        self.store = PostgresStore(self._database)
        self.clock: Clock = SystemClock()
        self._admin = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def _rows(self, statement: str, *bound: object) -> list[Row]:
        return self._admin.execute(statement, bound or None).fetchall()  # type: ignore[arg-type]

    def advance(self, seconds: float) -> None:
        self._admin.execute(
            "UPDATE qtg.movement_request_nodes SET next_look_at = next_look_at - make_interval(secs => %s) "
            "WHERE next_look_at IS NOT NULL",
            (seconds,),
        )
        self._admin.execute(
            "UPDATE qtg.movement_requests SET expires_at = expires_at - make_interval(secs => %s) "
            "WHERE request_state = 'PENDING_APPROVAL'",
            (seconds,),
        )

    def cut(self, runner: Runner) -> None:
        assert isinstance(runner, PostgresRunner)
        if runner._connection is None or runner._connection.closed:
            return  # it is cut already
        self._rows("SELECT pg_terminate_backend(%s, 5000)", runner.connection.info.backend_pid)

    def request_state(self, request_id: str) -> str:
        [row] = self._rows("SELECT request_state FROM qtg.movement_requests WHERE id = %s", request_id)
        return str(row["request_state"])

    def forget(self, request_id: str) -> None:
        for statement in (*_SETTLE, _AGE):
            self._admin.execute(statement)
        [row] = self._rows("SELECT * FROM qtg.retain_movements('30 days', '-infinity', %s, 100)", _NOBODY)
        assert row["deleted"], row
        assert not self._rows("SELECT 1 FROM qtg.movement_requests WHERE id = %s", request_id)

    def nodes(self, request_id: str) -> list[Row]:
        rows = self._rows(_NODES, request_id)
        return [{**row, "things": {*row["keys"], *([row["adopted"]] if row["adopted"] else [])}} for row in rows]

    def board(self) -> dict[str, Place]:
        return {row.pop("id"): Place(**row) for row in self._rows(_BOARD)}

    def standing(self, node_id: str) -> Any:
        return self._rows(_STANDING, node_id)

    def fenced(self, claim: Claim) -> bool:
        return bool(self._rows(_FENCED, claim.node_id, claim.runner_id, claim.claim_epoch))

    async def check_books(self, request_id: str, actions: set[str]) -> None:
        """What left the account is what is done and what may be; only the latter is in transit."""
        states = [row["node_state"] for row in self.nodes(request_id) if row["node_key"] in actions]
        unsettled = sum(state in UNSETTLED for state in states)
        gone = unsettled + states.count("COMPLETED")
        held = {row["kind"]: int(row["units"]) for row in self._rows(_HELD, request_id)}
        assert held.get("transit", 0) == unsettled * UNITS, f"{held} with nodes {states}"
        assert held.get("chain", 0) == -gone * UNITS, f"{held} with nodes {states}"
        async with self._database.transaction() as transaction:
            report = await verify_ledger(transaction, "sandbox")
        assert report.right, report.findings
        assert not [one for one in report.findings if one.check == "not in the ledger"]

    async def close(self) -> None:
        self._admin.close()
        await self._database.close()
