"""A database with movements in it, made by plain statements of the store."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.requests import NewRequest
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.requests import Requests
from qtg_dagster.store.runners import Runner
from qtg_dagster.store.templates import PlanVersions
from tests.recycling import wipe

Row = dict[str, Any]


def plan_of(*keys: str, template: str = "sample", executor: str = "exec.local.move") -> Plan:
    """Independent actions."""
    nodes = [{"node_key": k, "node_kind": "action", "action_type": "move", "executor_key": executor} for k in keys]
    return Plan.model_validate({"template_key": template, "title": template, "nodes": nodes})


@dataclass
class Seed:
    """Puts movements into the database and reads them back."""

    database: Database
    _templates: Any = field(default_factory=itertools.count)

    async def movement(
        self, *keys: str | None, state: str = "READY", executor: str = "exec.local.move", age_seconds: float = 0
    ) -> list[str]:
        """A movement of one node for each serialization key; returns the node ids in that order."""
        names = [f"n{number}" for number in range(len(keys))]
        plan = plan_of(*names, template=f"t{next(self._templates)}", executor=executor)
        async with self.database.transaction() as tx:
            new = NewRequest(
                network_class="sandbox",
                stored=await PlanVersions(tx).publish_plan(plan),
                intent={},
                input_params={},
                resolved_bindings={},
                serialization_keys=dict(zip(names, keys, strict=True)),
                scopes=dict.fromkeys(names, ()),
                compiled_plan_hash="h",
                approval_digest="d",
                body_hash="b",
                requested_by="ada",
                reason="",
                ttl_seconds=300,
            )
            inserted = await Requests(tx).insert_request(new)
            assert inserted is not None
            request_id = inserted.request_id
            for request_state in ("APPROVED", "EXECUTING"):
                await tx.execute(
                    text("UPDATE qtg.movement_requests SET request_state = :s WHERE id::text = :r"),
                    {"s": request_state, "r": request_id},
                )
            rows = await tx.execute(
                text(
                    "UPDATE qtg.movement_request_nodes SET node_state = 'READY', "
                    "request_created_at = now() - make_interval(secs => :age) "
                    "WHERE request_id::text = :r RETURNING node_key, id::text AS id"
                ),
                {"r": request_id, "age": age_seconds},
            )
            ids = {row.node_key: row.id for row in rows}
        for step in PATHS[state]:
            await self.sql("UPDATE qtg.movement_request_nodes SET node_state = :s WHERE id::text = ANY(:ids)",
                           s=step, ids=list(ids.values()))  # fmt: skip
        return [ids[name] for name in names]

    async def sql(self, statement: str, **bound: object) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(text(statement), bound)

    async def rows(self, statement: str, **bound: object) -> list[Row]:
        async with self.database.transaction() as tx:
            return [dict(row) for row in (await tx.execute(text(statement), bound)).mappings()]

    async def node(self, node_id: str) -> Row:
        [row] = await self.rows("SELECT * FROM qtg.movement_request_nodes WHERE id::text = :id", id=node_id)
        return row

    async def requests(self) -> Sequence[Row]:
        return await self.rows("SELECT * FROM qtg.movement_requests")


PATHS = {
    "READY": (),
    "SUBMITTING": ("SUBMITTING",),
    "SUBMITTED": ("SUBMITTING", "SUBMITTED"),
    "UNKNOWN": ("SUBMITTING", "UNKNOWN"),
}


@pytest.fixture(scope="session")
def shared_database_url(new_database: Callable[..., str], migrated_template: str) -> str:
    return new_database(migrated_template)


@pytest.fixture
def database_url(shared_database_url: str) -> str:
    """URL of a migrated database without a row; the same one for every test of this folder."""
    wipe(shared_database_url)
    return shared_database_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, pool_size=5)
    yield database
    await database.close()


@pytest.fixture
def store(database: Database) -> PostgresStore:
    return PostgresStore(database)


@pytest.fixture
def seed(database: Database) -> Seed:
    return Seed(database)


@pytest.fixture
async def runner(store: PostgresStore) -> AsyncIterator[Runner]:
    async with store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        yield runner


@pytest.fixture
async def other_runner(store: PostgresStore) -> AsyncIterator[Runner]:
    async with store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
        yield runner
