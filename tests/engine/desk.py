"""A test's hands on the engine: move a movement step by step, and read what is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.plans import Plan
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import Runner
from tests.engine import plans
from tests.engine.provider import Answer, ScriptedProvider, ScriptedSigner, answer

Row = dict[str, Any]


@dataclass
class Desk:
    """One engine, one runner, one scripted provider."""

    engine: Engine
    runner: Runner
    provider: ScriptedProvider
    signer: ScriptedSigner
    owner: Database  # reads, and changes rows as no part of QTG may
    request_id: str = ""

    def under(self, **settings: object) -> None:
        """Go on under other settings."""
        changed = self.engine.settings.model_copy(update=settings)
        self.engine = replace(self.engine, settings=changed)

    async def create(self, plan: Plan, **order: object) -> str:
        """A movement that waits for approval."""
        self.request_id = await plans.create(self.engine, plan, **order)
        return self.request_id

    async def begin(self, plan: Plan, **order: object) -> str:
        """An approved movement."""
        self.request_id = await plans.begin(self.engine, plan, **order)
        return self.request_id

    async def dispatch(self, batch: int = 1) -> int:
        return await dispatch_ready_nodes(self.engine, self.runner, batch)

    async def observe(self, batch: int = 10) -> int:
        return await observe_active_nodes(self.engine, self.runner, batch)

    async def recover(self, batch: int | None = None) -> int:
        return await recover_unknown_nodes(self.engine, self.runner, batch)

    def will(self, method: str, node_key: str, *answers: Answer | ResultStatus | None) -> None:
        """Script the provider; a bare status is an answer with evidence."""
        said = [answer(item) if isinstance(item, ResultStatus) else item for item in answers]
        self.provider.will(method, node_key, *said)

    async def rows(self, sql: str, **bound: object) -> list[Row]:
        """Read by plain SQL, to judge the engine by what is stored."""
        async with self.owner.transaction() as transaction:
            return [dict(row) for row in (await transaction.execute(text(sql), bound)).mappings()]

    async def sql(self, statement: str, **bound: object) -> None:
        """Change rows behind the engine's back."""
        async with self.owner.transaction() as transaction:
            await transaction.execute(text(statement), bound)

    async def states(self) -> dict[str, str]:
        """node_key -> node_state of all nodes there are."""
        found = await self.rows("SELECT node_key, node_state FROM qtg.movement_request_nodes")
        return {row["node_key"]: row["node_state"] for row in found}

    async def node_states(self) -> dict[str, str]:
        """Node id -> node_state, for several movements at once."""
        found = await self.rows("SELECT id::text AS id, node_state FROM qtg.movement_request_nodes")
        return {row["id"]: row["node_state"] for row in found}

    async def request_state(self) -> str:
        """The state of the only movement there is."""
        [row] = await self.rows("SELECT request_state FROM qtg.movement_requests")
        return str(row["request_state"])

    async def node(self, node_key: str = "first") -> Row:
        """A node's row, with the seconds until its next look as `due_in`."""
        [row] = await self.rows(
            "SELECT *, extract(epoch FROM next_look_at - now())::float AS due_in "
            "FROM qtg.movement_request_nodes WHERE node_key = :key",
            key=node_key,
        )
        return row

    async def steps(self, node_key: str = "first") -> list[Row]:
        """A node's journal."""
        return await self.rows(
            "SELECT s.* FROM qtg.movement_node_steps s JOIN qtg.movement_request_nodes n ON n.id = s.request_node_id "
            "WHERE n.node_key = :key ORDER BY s.id",
            key=node_key,
        )

    async def make_due(self) -> None:
        """Let every next look be due now."""
        await self.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL WHERE next_look_at IS NOT NULL")

    async def callbacks(self) -> list[Row]:
        return await self.rows("SELECT * FROM qtg.movement_callback_outbox ORDER BY id")
