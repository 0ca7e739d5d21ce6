"""Movements that are over, old and settled, and what a pass of deletion leaves of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.retention import Kind, KindReport
from qtg_dagster.store.retention import BEGINNING, Deletions, TreeBatch
from qtg_dagster.upkeep.retention import Places, retain
from tests.engine.desk import Desk
from tests.engine.plans import node, plan_of, watch

_TERMS = {"asset": "USDC", "amount": "$param:amount", "chain": "eip155:1", "destination": "0xallowed"}
CALLED_BACK = {"callback_url": "https://example.com/told"}
WINDOW = timedelta(days=30)
DELIVER = "UPDATE qtg.movement_callback_outbox SET status = 'delivered', delivered_at = now()"
ENTER = """INSERT INTO qtg.audit_events (outbox_id, network_class, sequence, actor, action, subject_type, subject_id,
        details, previous_hash, row_hash)
    SELECT id, network_class, id, actor, action, subject_type, subject_id, details, repeat('0', 64), repeat('a', 64)
    FROM qtg.audit_outbox WHERE promoted_at IS NULL"""
PROMOTE = "UPDATE qtg.audit_outbox SET promoted_at = now() WHERE promoted_at IS NULL"
#: Every table that holds a row of a movement while it stands -> how to count the rows of one.
TREE = {
    "movement_requests": "id = CAST(:id AS uuid)",
    "movement_request_nodes": "request_id = CAST(:id AS uuid)",
    "movement_callback_outbox": "request_id = CAST(:id AS uuid)",
    "movement_approvals": "request_id = CAST(:id AS uuid)",
    "movement_node_attempts": "request_node_id = ANY (CAST(:nodes AS uuid[]))",
    "movement_node_steps": "request_node_id = ANY (CAST(:nodes AS uuid[]))",
    "evm_nonce_reservation": "request_node_id = ANY (CAST(:nodes AS uuid[]))",
    "ccip_send_intent": "request_node_id = ANY (CAST(:nodes AS uuid[]))",
}


def paid() -> Plan:
    """first -> watch -> last: two transfers from the treasury's account, in the ledger."""
    return plan_of(
        node("first", config={**_TERMS, "account": "treasury"}),
        watch("watch", config={"reference": "$ref:first.reference"}),
        node("last", config={**_TERMS, "account": "treasury"}),
        edges=(("first", "watch"), ("watch", "last")),
        key="paid",
    )


@dataclass
class Keeper:
    """A test's hands on deletion: under the role's own rights, beside the engine's."""

    desk: Desk
    deletions: Deletions

    async def finished(self, *, days: float = 31, **order: object) -> str:
        """Id of a movement that is COMPLETED, told of, audited, and over for so long."""
        request_id = await self.desk.begin(paid(), **{**CALLED_BACK, **order})
        while await self.state(request_id) != "COMPLETED":
            await self.desk.dispatch()
            await self.desk.make_due()
            await self.desk.observe()
        await self.settle()
        await self.age(request_id, days)
        return request_id

    async def settle(self) -> None:
        for statement in (DELIVER, ENTER, PROMOTE):
            await self.desk.sql(statement)

    async def age(self, request_id: str, days: float) -> None:
        await self.desk.sql(
            "UPDATE qtg.movement_requests SET finished_at = now() - make_interval(secs => :s) WHERE id::text = :id",
            s=days * 86400,
            id=request_id,
        )

    async def state(self, request_id: str) -> str | None:
        found = await self.desk.rows(
            "SELECT request_state FROM qtg.movement_requests WHERE id::text = :id", id=request_id
        )
        return found[0]["request_state"] if found else None

    async def nodes(self, request_id: str) -> list[str]:
        found = await self.desk.rows(
            "SELECT id::text AS id FROM qtg.movement_request_nodes WHERE request_id::text = :id ORDER BY plan_node_id",
            id=request_id,
        )
        return [row["id"] for row in found]

    async def tree(self, request_id: str, nodes: list[str]) -> dict[str, int]:
        """How many rows each table has of a movement."""
        counts: dict[str, int] = {}
        for table, which in TREE.items():
            [row] = await self.desk.rows(
                f"SELECT count(*) AS n FROM qtg.{table} WHERE {which}",  # noqa: S608 - our own constants
                **({"id": request_id} if ":id" in which else {"nodes": nodes}),
            )
            counts[table] = row["n"]
        return counts

    async def batch(self, size: int = 50) -> TreeBatch:
        return await self.deletions.movements(WINDOW, BEGINNING, size)

    async def deletes(self, request_id: str) -> bool:
        """Whether one batch takes the movement."""
        await self.batch()
        return await self.state(request_id) is None

    async def a_pass(self, **settings: object) -> dict[Kind, KindReport]:
        given = self.desk.engine.settings.model_copy(update={"retention_load": 1.0, **settings})
        places = Places(self.desk.owner, self.deletions)
        return {report.kind: report for report in await retain(given, places)}

    async def tombstones(self) -> list[dict[str, Any]]:
        return await self.desk.rows("SELECT *, request_id::text AS id FROM qtg.movement_tombstones ORDER BY created_at")
