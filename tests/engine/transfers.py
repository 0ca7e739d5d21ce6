"""A desk with a route from the treasury to the vault, and the ways of a transfer on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qtg_dagster.domain.routes import RouteEntry
from qtg_dagster.engine.parts import Engine
from qtg_dagster.inventory import AccountEntry, AssetEntry, Inventory
from qtg_dagster.store.capital_transfers import Transfer, read_transfer
from qtg_dagster.treasury.capital_transfers import TransferOrder, TransferReceipt, request_capital_transfer
from qtg_dagster.treasury.transfer_followup import FollowUp, follow_up_pending_capital_transfers
from tests.engine.desk import Desk, Row

ORDER = {
    "source": "treasury",
    "destination": "vault",
    "asset": "USDC",
    "amount": "250.50",
    "requested_by": "ada",
    "reason": "margin",
}
AUDITED = "SELECT action, actor, details FROM qtg.audit_outbox WHERE subject_type = 'capital_transfer' ORDER BY id"


def inventory_of(signer: str | None = None, **route: object) -> Inventory:
    """What the sample templates name, and one way to go; without validation, as the tests' addresses are none."""
    way = {"from": "treasury", "to": "vault", "assets": ("USDC",), "template_key": "chain", **route}
    return Inventory.model_construct(
        assets={"USDC": AssetEntry(symbol="USDC", decimals=6)},
        accounts={
            "treasury": AccountEntry(chain="eip155:1", address="0x" + "11" * 20, signer=signer),
            "vault": AccountEntry.model_construct(chain="eip155:1", address="0xallowed", signer=None),
        },
        routes={"way": RouteEntry.model_validate(way)},
    )


def take_route(desk: Desk, **route: object) -> None:
    """Go on under an inventory with this route."""
    desk.engine = replace(desk.engine, inventory=inventory_of(desk.signer.signer_key, **route))


async def request(engine: Engine, transaction: Any = None, **values: object) -> TransferReceipt:
    return await request_capital_transfer(engine, TransferOrder.read({**ORDER, **values}), transaction)


async def stored_only(desk: Desk, **values: object) -> str:
    """A transfer that nobody has begun yet: requested in a transaction of the caller's own."""
    async with desk.engine.database.transaction() as tx:
        return (await request(desk.engine, tx, **values)).transfer_id


async def follow(desk: Desk) -> FollowUp:
    return await follow_up_pending_capital_transfers(desk.engine)


async def transfer(desk: Desk, transfer_id: str) -> Transfer:
    async with desk.engine.database.transaction() as tx:
        return await read_transfer(tx, desk.engine.settings.network_class, transfer_id)


async def movements(desk: Desk) -> list[Row]:
    """Every movement there is, oldest first."""
    return await desk.rows(
        "SELECT id::text AS id, request_state AS state FROM qtg.movement_requests ORDER BY created_at"
    )


async def audited(desk: Desk) -> list[str]:
    return [row["action"].removesuffix("_capital_transfer") for row in await desk.rows(AUDITED)]


async def expire(desk: Desk, movement_id: str) -> None:
    """As the expiration does to what nobody approved in time."""
    await desk.sql(
        "UPDATE qtg.movement_requests SET request_state = 'EXPIRED', finished_at = now(), expires_at = now() "
        "WHERE id::text = :id",
        id=movement_id,
    )


async def age(desk: Desk, seconds: float) -> None:
    """Let everything that has happened have happened so long ago."""
    back = "- make_interval(secs => :seconds)"
    await desk.sql(
        f"UPDATE qtg.capital_transfer_requests SET state_since = state_since {back}, created_at = created_at {back}",  # noqa: S608
        seconds=seconds,
    )
    await desk.sql(
        f"UPDATE qtg.movement_requests SET created_at = created_at {back}, approved_at = approved_at {back}",  # noqa: S608
        seconds=seconds,
    )
