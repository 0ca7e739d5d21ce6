"""One place where cases run one after another: a database of its own, and the harness's hands on it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from sqlalchemy.exc import SQLAlchemyError

from qtg_dagster.composition import Platform
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.engine.interventions import resume_movement, retry_node
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from tests.crash.boundaries import Lane
from tests.crash.plans import plan_of, values_of
from tests.crash.provider.book import BookedMove, read_book
from tests.crash.spec import Role, WorkerSpec
from tests.crash.stage import Stage
from tests.crash.worker import open_parts
from tests.crash.world import Effect
from tests.recycling import wipe

Row = dict[str, Any]
#: The lane's own rule leaves it to a person: not on the venue's record, which alone proves nothing.
WAITS_FOR_A_PERSON = ("NOT_ON_RECORD_YET", "NOT_ON_RECORD")
#: The database is away; who asked asks again.
AWAY = (SQLAlchemyError, psycopg.Error, OSError)

_OPEN = """
    SELECT n.id::text AS id, n.node_key, n.node_state, n.error_code, r.request_state, n.request_id::text AS request_id
    FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
    WHERE n.node_state IN ('SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN', 'FAILED')
       OR (n.node_state IN ('READY', 'BLOCKED') AND r.request_state IN ('APPROVED', 'EXECUTING', 'PENDING_APPROVAL')
           AND NOT EXISTS (SELECT 1 FROM qtg.movement_request_nodes stuck
                           WHERE stuck.request_id = n.request_id
                             AND stuck.node_state = 'UNKNOWN' AND stuck.error_code = ANY (%s)))
"""


@dataclass
class Bench:
    """A database, an engine to order movements with, and a plain connection to judge by."""

    stage: Stage
    number: int
    url: str
    platform: Platform
    folder: Path
    account: str = ""
    chain_height: int = 0
    chain_nonce: int = 0
    last_withdrawal: int = 0
    _reader: psycopg.AsyncConnection[Row] | None = None
    _cases: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _orders: itertools.count[int] = field(default_factory=itertools.count)

    async def begin(self, *, with_world: bool) -> None:
        """An empty database and a fresh account, for the next case."""
        await asyncio.to_thread(wipe, self.url)
        self.account = f"bench-{self.number}-case-{next(self._cases)}"
        world = self.stage.world
        if world is not None and with_world:
            await world.control.clear_faults()
            self.chain_height, self.chain_nonce = await world.height(), await world.nonce()
            self.last_withdrawal = await world.last_withdrawal()

    @property
    def log(self) -> Path:
        return self.folder / f"{self.account}.log"

    @property
    def mark(self) -> Path:
        return self.folder / f"{self.account}.mark"

    def marks(self) -> list[str]:
        """Fault points that acted in this case."""
        return self.mark.read_text().splitlines() if self.mark.is_file() else []

    def spec(self, role: Role = Role.DRAINS, *, fault: str = "", url: str | None = None, skew: float = 0) -> WorkerSpec:
        return WorkerSpec(
            role=role,
            database_url=url or self.url,
            bank_socket=str(self.stage.bank_socket),
            log=str(self.log),
            inventory_file=self.stage.inventory_file,
            callbacks_file=str(self.stage.callbacks_file),
            fault=fault,
            mark=str(self.mark),
            clock_offset_seconds=skew,
        )

    async def order(self, lane: Lane, many: int = 1, *, approved: bool = True, ttl: int | None = None) -> list[str]:
        """New movements of a lane, to be approved within `ttl` seconds; returns their ids."""
        engine, world = self.platform.engine, self.stage.world
        plan = plan_of(lane, self.account, world)
        await publish_template(engine, plan)
        ids: list[str] = []
        for _ in range(many):
            document = {
                "template_key": plan.template_key,
                "requested_by": "ada",
                "approval_ttl_seconds": ttl,
                "callback_url": self.stage.owner_url,
                **values_of(lane, next(self._orders), world),
            }
            ids.append((await create_movement(engine, MovementOrder.read(document))).request_id)
        if approved:
            for request_id in ids:
                await approve_movement(engine, request_id, actor="grace")
        return ids

    async def rows(self, sql: str, *bound: Any) -> list[Row]:
        """Read by plain SQL; comes back after the server went away."""
        for _ in range(200):
            try:
                if self._reader is None or self._reader.closed:
                    self._reader = await psycopg.AsyncConnection.connect(
                        self.url, autocommit=True, row_factory=dict_row, application_name="crash reader"
                    )
                return await (await self._reader.execute(sql, bound)).fetchall()
            except psycopg.OperationalError:
                self._reader = None
                await asyncio.sleep(0.05)
        raise AssertionError("the database does not come back")

    def booked(self) -> list[BookedMove]:
        """What the bank has on record for this case."""
        return [move for move in read_book(self.stage.book) if move.account == self.account]

    async def effects(self, lane: Lane | None) -> list[Effect]:
        """Everything that moved in this case, as the providers have it; no lane means all of them."""
        found = [Effect(move.client_id, move.amount, move.at) for move in self.booked()]
        world = self.stage.world
        if world is not None and lane in (None, Lane.EVM_TRANSFER):
            found += await world.transfers_since(self.chain_height)
        if world is not None and lane in (None, Lane.CEX_WITHDRAWAL):
            found += await world.withdrawals_since(self.last_withdrawal)
        return found

    async def keys(self) -> dict[str, set[str]]:
        """Node id -> every name under which a provider may know it."""
        found = await self.rows(
            "SELECT request_node_id::text AS id, idempotency_key, "
            "prepared #>> '{provider_refs,withdrawal_client_id}' AS client_id, "
            "prepared #>> '{provider_refs,tx_hash}' AS tx_hash FROM qtg.movement_node_attempts"
        )
        keys: dict[str, set[str]] = {}
        for row in found:
            names = {row["idempotency_key"], row["client_id"], row["tx_hash"]} - {None}
            keys.setdefault(row["id"], set()).update(names)
        return keys

    async def open_nodes(self, lane: Lane | None) -> list[Row]:
        """Nodes that are not at rest yet; an operator sees to those that ask for one in the meantime."""
        found = await self.rows(_OPEN, list(WAITS_FOR_A_PERSON))
        await self._operate(found)
        resting = [r for r in found if r["node_state"] == "UNKNOWN" and r["error_code"] in WAITS_FOR_A_PERSON]
        if resting and len(resting) == len(found):
            keys, moved = await self.keys(), {effect.key for effect in await self.effects(lane)}
            return [row for row in resting if keys.get(row["id"], set()) & moved]
        return found

    async def _operate(self, found: list[Row]) -> None:
        """What is FAILED is done again, what stopped goes on: nothing may stay unmoved, and nothing move again."""
        engine = self.platform.engine
        for row in found:
            if row["node_state"] == "FAILED":
                with suppress(Conflict, *AWAY):
                    await retry_node(engine, row["request_id"], row["node_key"], actor="lin", reason="never left")
        for request_id in {r["request_id"] for r in found if r["request_state"] == "MANUAL_INTERVENTION"}:
            with suppress(Conflict, *AWAY):
                await resume_movement(engine, request_id, actor="lin", reason="look again")

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, seconds: float) -> None:
        """Wait for a condition; a violation when it does not come."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not await condition():
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(what)
            await asyncio.sleep(0.02)

    async def until_quiet(self, lane: Lane | None, seconds: float) -> None:
        """Wait until every node is at rest."""

        async def quiet() -> bool:
            return not await self.open_nodes(lane)

        try:
            await self.until(quiet, "", seconds)
        except TimeoutError:
            left = [f"{r['node_key']} {r['node_state']} {r['error_code']}" for r in await self.open_nodes(lane)]
            raise TimeoutError(f"not at rest in {seconds:g} s: {', '.join(left)}") from None

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()


@asynccontextmanager
async def open_bench(stage: Stage, number: int) -> AsyncIterator[Bench]:
    """A bench with a database of its own."""
    url = await stage.new_database(f"crash_{number}")
    folder = stage.home / f"bench-{number}"
    folder.mkdir()
    spec = WorkerSpec("passes", url, str(stage.bank_socket), "", inventory_file=stage.inventory_file)
    async with open_parts(spec) as platform:
        bench = Bench(stage, number, url, platform, folder)
        try:
            yield bench
        finally:
            await bench.close()
