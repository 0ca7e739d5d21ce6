"""A platform on a real chain whose mining the test commands, and movements that strand a nonce on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from qtg_dagster.composition import Platform, open_platform
from qtg_dagster.domain.workers import RunnerIdentity
from qtg_dagster.engine.dispatch import dispatch_ready_nodes
from qtg_dagster.engine.observe import observe_active_nodes
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.recover import recover_unknown_nodes
from qtg_dagster.engine.requests import approve_movement, cancel_movement, create_movement, publish_template
from qtg_dagster.executors.signers.guarded import Agreed
from qtg_dagster.executors.signers.local import LocalKeystoreSigner
from qtg_dagster.faults import FaultInjected, arm
from qtg_dagster.inventory import Inventory
from qtg_dagster.sandbox.faucet import Faucet
from qtg_dagster.sandbox.plans import sample_plans
from qtg_dagster.sandbox.world import World, prepare_world
from qtg_dagster.settings import Settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import APP, SIGNER
from qtg_dagster.upkeep.nonce_desk import NonceDesk
from tests.conftest import as_role
from tests.lanes.evm.conftest import anvil_url, faucet

__all__ = ["anvil_url", "faucet"]

Row = dict[str, Any]


@dataclass
class Bench:
    """A platform, the chain behind it, and the rows it keeps."""

    platform: Platform
    world: World
    faucet: Faucet
    owner: Database
    signed: list[str] = field(default_factory=list)  # every transaction that left a signer, in order

    @property
    def desk(self) -> NonceDesk:
        return NonceDesk(self.platform.engine, self.platform.nonce_chain)

    @property
    def key(self) -> tuple[str, str]:
        return self.world.chain, self.world.treasury

    async def order(self, amount: str = "25") -> str:
        """An approved transfer on the chain."""
        order = MovementOrder(
            template_key="chain_transfer_usdc", parameters={"amount": amount}, requested_by="ada", reason="test"
        )
        request_id = (await create_movement(self.platform.engine, order)).request_id
        await approve_movement(self.platform.engine, request_id, actor="grace")
        return request_id

    async def dispatch(self) -> int:
        async with self.platform.engine.store.runner(RunnerIdentity("dispatch", "sandbox")) as runner:
            return await dispatch_ready_nodes(self.platform.engine, runner, 1)

    async def look(self) -> None:
        """One pass of observe and of recovery, of everything."""
        await self.sql("UPDATE qtg.movement_request_nodes SET next_look_at = NULL")
        for work, kind in ((observe_active_nodes, "observe"), (recover_unknown_nodes, "recover")):
            async with self.platform.engine.store.runner(RunnerIdentity(kind, "sandbox")) as runner:
                await work(self.platform.engine, runner, 10)

    async def die_after_signing(self, amount: str = "25") -> str:
        """A movement whose worker died when its transfer was signed and nothing of it was stored; it is put off."""
        request_id = await self.order(amount)
        arm("signed_unsaved:raise")
        try:
            with pytest.raises(FaultInjected):
                await self.dispatch()
        finally:
            arm("")
        await self.sql(
            "UPDATE qtg.movement_request_nodes SET next_look_at = now() + interval '1 hour', runner_id = NULL, "
            "in_flight_key = NULL WHERE request_id = CAST(:r AS uuid)",
            r=request_id,
        )
        return request_id

    async def strand(self) -> str:
        """The same, called off: nobody will use its nonce."""
        request_id = await self.die_after_signing()
        await self.cancel(request_id)
        return request_id

    async def cancel(self, request_id: str) -> None:
        await cancel_movement(self.platform.engine, request_id, actor="ada", reason="not needed any more")

    async def fill(self, nonce: int = 0, **how: Any) -> Any:
        return await self.desk.fill(*self.key, nonce, actor="olivia", reason="it holds up the others", **how)

    async def rows(self, sql: str, **bound: object) -> list[Row]:
        async with self.owner.transaction() as tx:
            return [dict(row) for row in (await tx.execute(text(sql), bound)).mappings()]

    async def sql(self, statement: str, **bound: object) -> None:
        async with self.owner.transaction() as tx:
            await tx.execute(text(statement), bound)

    async def node(self, request_id: str) -> Row:
        [row] = await self.rows(
            "SELECT * FROM qtg.movement_request_nodes WHERE node_key = 'transfer' AND request_id = CAST(:r AS uuid)",
            r=request_id,
        )
        return row

    async def reservation(self, nonce: int = 0) -> Row:
        [row] = await self.rows(
            "SELECT * FROM qtg.evm_nonce_reservation WHERE nonce = :n AND reservation_state <> 'RELEASED'", n=nonce
        )
        return row

    async def fillers(self) -> list[tuple[int, str]]:
        rows = await self.rows("SELECT nonce, filler_state FROM qtg.evm_nonce_fillers ORDER BY nonce, version")
        return [(row["nonce"], row["filler_state"]) for row in rows]

    async def call(self, method: str, *params: Any) -> Any:
        return await asyncio.to_thread(self.faucet.call, method, *params)

    async def mine(self, blocks: int = 1) -> None:
        await self.call("anvil_mine", hex(blocks))

    async def count(self, block: str = "latest") -> int:
        return int(await self.call("eth_getTransactionCount", self.world.treasury, block), 16)

    async def mined(self, count: int) -> None:
        """Wait until so many transactions of the treasury are mined: anvil mines a moment after it has answered."""
        for _ in range(500):
            if await self.count() >= count:
                return
            await asyncio.sleep(0.01)
        pytest.fail(f"never mined: {await self.count()} of {count}")

    async def paid(self) -> int:
        """USDC units that have left the treasury."""
        from qtg_dagster.sandbox import contracts

        return 1_000_000 * 10**6 - await asyncio.to_thread(
            contracts.balance, self.faucet, self.world.token, self.world.treasury
        )


@pytest.fixture
def world(faucet: Faucet, anvil_url: str, tmp_path: Path) -> World:
    faucet.call("anvil_setBalance", faucet.address, hex(10**24))
    return prepare_world(tmp_path, anvil_url, 1)


@asynccontextmanager
async def bench_on(world: World, faucet: Faucet, database_url: str, **settings: Any) -> AsyncIterator[Bench]:
    """The platform under the roles that it has in production."""
    roles = {"database_url": as_role(database_url, APP), "signer_database_url": as_role(database_url, SIGNER)}
    inventory = Inventory.load(world.inventory_file)
    owner = Database(database_url, pool_size=2)
    async with open_platform(Settings(**roles, **settings), inventory=inventory) as platform:
        yield Bench(platform, world, faucet, owner)
    await owner.close()


@pytest.fixture
async def bench(
    world: World,
    faucet: Faucet,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Bench]:
    signed: list[str] = []
    honest = LocalKeystoreSigner._sign

    async def noted(signer: LocalKeystoreSigner, agreed: Agreed) -> str:
        signed.append(await honest(signer, agreed))
        return signed[-1]

    monkeypatch.setattr(LocalKeystoreSigner, "_sign", noted)
    async with bench_on(world, faucet, database_url) as bench:
        bench.signed = signed
        for plan in sample_plans(Inventory.load(world.inventory_file)):
            if plan.template_key == "chain_transfer_usdc":
                await publish_template(bench.platform.engine, plan)
        yield bench
