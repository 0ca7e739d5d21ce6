"""Capital transfers: asked for without naming a template, stored once, begun as the movement that their route names.

A request and its movement are two commits. Between them the transfer is REQUESTED, and whoever comes next begins it:
who asked, or the follow-up. The movement and the row that says which attempt it is are one commit, so that an attempt
has one movement or none, whoever dies when.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, Field, StringConstraints

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.canonical import digest
from qtg_dagster.domain.capital_transfers import Attention, TransferState
from qtg_dagster.domain.errors import Conflict, InvalidInput, QtgError
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.engine.orders import Name, read_order
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import create_movement
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.audit import audit
from qtg_dagster.store.capital_transfers import (
    UNSEEN_TRANSFER,
    NewTransfer,
    Transfer,
    find_transfer_by_key,
    insert_transfer,
    is_future,
    lock_transfer,
    move_transfer,
    read_transfer,
    record_attempt,
)
from qtg_dagster.store.database import Transaction
from qtg_dagster.treasury.transfer_routes import Errand, plan_errand


class TransferOrder(Frozen):
    """What is to be where."""

    source: Name = Field(description="a venue or an account of the inventory, e.g. binance or binance.main")
    destination: Name = Field(description="a venue or an account of the inventory, e.g. treasury")
    asset: Name = Field(description="by its key in the inventory")
    amount: Name = Field(description="plain decimal text")
    requested_by: Name
    reason: str = Field(default="", max_length=1800)
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    wanted_by: AwareDatetime | None = Field(default=None, description="when it should be there; later, people are told")

    @classmethod
    def read(cls, document: Any) -> TransferOrder:
        """Validate a document; raises `InvalidInput` for the first wrong field."""
        return read_order(cls, document)

    def body_hash(self) -> str:
        """Identity of what is asked for: under one idempotency key there is only one."""
        return digest("qtg.transfer.v1", self.model_dump(mode="json", exclude={"idempotency_key"}))


class TransferReceipt(Frozen):
    """What the caller holds after a request."""

    transfer_id: str
    created: bool = Field(description="false: this request stood already under its idempotency key")
    state: TransferState
    movement_id: str | None = Field(default=None, description="what waits for approval")
    attention: str | None = Field(default=None, description="why it could not be begun, if so")


async def request_capital_transfer(
    engine: Engine, order: TransferOrder, transaction: Transaction | None = None
) -> TransferReceipt:
    """Store a transfer and begin it: its movement then waits for approval like any other.

    Raises `InvalidInput` for what no route carries, and for what its template does not take; nothing is stored then.
    The same key and request returns what stands, another request under the key raises `Conflict`. With `transaction`
    the request becomes part of the caller's own and commits with it; the follow-up begins it.
    """
    async with engine.database.within(transaction) as tx:
        transfer_id, created = await _store(engine, tx, order)
        if transaction is not None:
            return _receipt(await read_transfer(tx, engine.settings.network_class, transfer_id), created=created)
    fault_point(FaultPoint.TRANSFER_STORED)
    return _receipt(await begin_capital_transfer(engine, transfer_id), created=created)


async def begin_capital_transfer(engine: Engine, transfer_id: str) -> Transfer:
    """Begin a transfer that is REQUESTED, and say how it stands; does nothing with another. Raises `NotFound`."""
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        transfer = await lock_transfer(tx, network_class, transfer_id)
        if transfer.state is TransferState.REQUESTED:
            await begin(engine, tx, transfer, actor=transfer.requested_by)
            fault_point(FaultPoint.TRANSFER_BEGUN)
        return await read_transfer(tx, network_class, transfer_id)


async def begin(engine: Engine, tx: Transaction, transfer: Transfer, *, actor: str) -> None:
    """Make the movement of a locked REQUESTED transfer's present attempt, or show people why that cannot be."""
    try:
        key, order = await plan_errand(engine, tx, errand_of(transfer), idempotency_key=movement_key(transfer))
        async with tx.begin_nested():
            receipt = await create_movement(engine, order, tx)
            fault_point(FaultPoint.TRANSFER_MOVEMENT_MADE)
            await record_attempt(
                tx, transfer, movement_id=receipt.request_id, route=key, template_key=order.template_key
            )
    except QtgError as refused:
        why = f"no movement could be made for attempt {transfer.attempt_no}: {refused}"
        await move_transfer(tx, transfer, TransferState.NEEDS_ATTENTION, attention=(Attention.NOT_BEGUN, why))
        await note(tx, transfer, "surface", actor, {"kind": Attention.NOT_BEGUN, "because": why})
        return
    await move_transfer(tx, transfer, TransferState.MOVING)
    begun = {"movement_request_id": receipt.request_id, "route": key, "attempt_no": transfer.attempt_no}
    await note(tx, transfer, "begin", actor, {**begun, "template_key": order.template_key})


def movement_key(transfer: Transfer) -> str:
    """The idempotency key of the movement of a transfer's present attempt."""
    return f"capital-transfer:{transfer.transfer_id}:{transfer.attempt_no}"


def errand_of(transfer: Transfer) -> Errand:
    """What a stored transfer is to bring about."""
    return Errand(
        transfer.source,
        transfer.destination,
        transfer.asset,
        transfer.amount,
        transfer.decimals,
        transfer.requested_by,
        f"capital transfer {transfer.transfer_id}: {transfer.reason}".rstrip(": "),
    )


async def note(tx: Transaction, transfer: Transfer, deed: str, actor: str, details: dict[str, Any]) -> None:
    """Who did what to a transfer, in the transaction of the deed."""
    await audit(
        tx,
        network_class=transfer.network_class,
        actor=actor,
        action=f"{deed}_capital_transfer",
        subject_id=transfer.transfer_id,
        subject_type="capital_transfer",
        details=details,
    )


async def _store(engine: Engine, tx: Transaction, order: TransferOrder) -> tuple[str, bool]:
    """The id of the transfer that stands for an order, and whether it is new."""
    standing = await _standing(engine, tx, order)
    if standing is not None:  # before anything is looked up: what stands stands, whatever the inventory says now
        return standing, False
    inventory, network_class = engine.inventory, engine.settings.network_class
    source = inventory.endpoint(order.source, field="source")
    destination = inventory.endpoint(order.destination, field="destination")
    amount = Amount.parse(inventory.asset(order.asset), order.amount)
    if amount.base_units == 0:
        raise InvalidInput("amount", "is nothing", "Give how much is to be moved.")
    if order.wanted_by is not None and not await is_future(tx, order.wanted_by):
        raise InvalidInput("wanted_by", f"{order.wanted_by.isoformat()} has passed", "Give a time to come, or none.")
    new = NewTransfer(
        network_class,
        str(source),
        str(destination),
        order.asset,
        amount,
        order.reason,
        order.requested_by,
        order.body_hash(),
        order.idempotency_key,
        order.wanted_by,
    )
    wanted = Errand(
        new.source, new.destination, new.asset, amount.to_text(), amount.asset.decimals, new.requested_by, new.reason
    )
    route, _ = await plan_errand(engine, tx, wanted)
    transfer_id = await insert_transfer(tx, new)
    if transfer_id is None:
        standing = await _standing(engine, tx, order)
        if standing is None:
            raise Conflict(UNSEEN_TRANSFER)
        return standing, False
    asked = {"from": new.source, "to": new.destination, "asset": new.asset, "amount": amount.to_text(), "route": route}
    await audit(
        tx,
        network_class=network_class,
        actor=order.requested_by,
        action="request_capital_transfer",
        subject_id=transfer_id,
        subject_type="capital_transfer",
        details={**asked, "reason": order.reason},
    )
    return transfer_id, True


async def _standing(engine: Engine, tx: Transaction, order: TransferOrder) -> str | None:
    """The transfer that stands under the order's key, if it has one; another order under it is a `Conflict`."""
    if order.idempotency_key is None:
        return None
    found = await find_transfer_by_key(tx, engine.settings.network_class, order.idempotency_key)
    if found is None:
        return None
    transfer_id, body_hash = found
    if body_hash != order.body_hash():
        raise Conflict(
            f"idempotency_key {order.idempotency_key!r} belongs to capital transfer {transfer_id} with another content"
        )
    return transfer_id


def _receipt(transfer: Transfer, *, created: bool) -> TransferReceipt:
    return TransferReceipt(
        transfer_id=transfer.transfer_id,
        created=created,
        state=transfer.state,
        movement_id=transfer.movement_id,
        attention=transfer.attention,
    )
