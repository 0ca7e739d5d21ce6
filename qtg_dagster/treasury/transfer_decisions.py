"""What people do about capital transfers: try again as a new attempt, call off, close what was settled by hand."""

from __future__ import annotations

from qtg_dagster.domain.capital_transfers import (
    Standing,
    TransferAction,
    TransferState,
    objection,
    possible_actions,
)
from qtg_dagster.domain.errors import Conflict, InvalidInput
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import cancel_movement
from qtg_dagster.store.capital_transfers import Transfer, lock_transfer, move_transfer, read_transfer
from qtg_dagster.store.database import Transaction
from qtg_dagster.treasury.capital_transfers import begin_capital_transfer, note
from qtg_dagster.treasury.transfer_standing import standing_of


async def retry_capital_transfer(engine: Engine, transfer_id: str, *, actor: str, reason: str) -> Transfer:
    """Have a transfer that stopped moved by another movement, which waits for approval like the first.

    A movement that FAILED is cancelled in the same commit, so that nobody retries a node of it later. Raises
    `NotFound`; `Conflict` while the earlier movement may have moved money, or still may.
    """
    _check_reason(reason)
    async with engine.database.transaction() as tx:
        transfer, standing = await _lock_for(engine, tx, transfer_id, TransferAction.RETRY)
        await _end_movement(engine, tx, transfer, standing, actor, f"it is tried again: {reason}")
        await move_transfer(tx, transfer, TransferState.REQUESTED, new_attempt=True)
        details = {"reason": reason, "attempt_no": transfer.attempt_no + 1, "after_movement": transfer.last_movement_id}
        await note(tx, transfer, "retry", actor, details)
    return await begin_capital_transfer(engine, transfer_id)


async def cancel_capital_transfer(engine: Engine, transfer_id: str, *, actor: str, reason: str) -> Transfer:
    """Call a transfer off of which nothing moved, and its movement with it.

    Raises `NotFound`; `Conflict` when money may have moved, or something of it is in flight.
    """
    _check_reason(reason)
    async with engine.database.transaction() as tx:
        transfer, standing = await _lock_for(engine, tx, transfer_id, TransferAction.CANCEL)
        await _end_movement(engine, tx, transfer, standing, actor, reason)
        await move_transfer(tx, transfer, TransferState.CANCELLED)
        await note(tx, transfer, "cancel", actor, {"reason": reason, "movement_request_id": transfer.last_movement_id})
        return await read_transfer(tx, transfer.network_class, transfer_id)


async def close_capital_transfer(engine: Engine, transfer_id: str, *, actor: str, reason: str) -> Transfer:
    """End a transfer whose movement ended after it may have moved money; where that is now, the reason says.

    Raises `NotFound`; `Conflict` when nothing moved, or while the movement can still go on.
    """
    _check_reason(reason)
    async with engine.database.transaction() as tx:
        transfer, standing = await _lock_for(engine, tx, transfer_id, TransferAction.CLOSE)
        effects = standing.movement.possible_effects() if standing.movement is not None else ("not known any more",)
        await move_transfer(tx, transfer, TransferState.CLOSED)
        details = {"reason": reason, "movement_request_id": transfer.last_movement_id, "effects": list(effects)}
        await note(tx, transfer, "close", actor, details)
        return await read_transfer(tx, transfer.network_class, transfer_id)


async def read_possible_actions(engine: Engine, tx: Transaction, transfer: Transfer) -> tuple[TransferAction, ...]:
    """What may be done about a transfer now, to be shown."""
    return possible_actions(await standing_of(engine, tx, transfer))


async def _lock_for(
    engine: Engine, tx: Transaction, transfer_id: str, action: TransferAction
) -> tuple[Transfer, Standing]:
    """Lock a transfer and its movement for an action that may be taken now; raises `NotFound` and `Conflict`."""
    transfer = await lock_transfer(tx, engine.settings.network_class, transfer_id)
    standing = await standing_of(engine, tx, transfer, held=True)
    problem = objection(standing, action)
    if problem is not None:
        possible = ", ".join(possible_actions(standing)) or "nothing"
        raise Conflict(f"capital transfer {transfer_id}: {problem}. Possible now: {possible}")
    return transfer, standing


async def _end_movement(
    engine: Engine, tx: Transaction, transfer: Transfer, standing: Standing, actor: str, reason: str
) -> None:
    """Cancel the newest movement, unless it has ended for good; raises `Conflict` when it cannot be."""
    movement = standing.movement
    if movement is not None and not movement.final:
        why = f"capital transfer {transfer.transfer_id}: {reason}"
        await cancel_movement(engine, movement.request_id, actor=actor, reason=why, transaction=tx)


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say why: it goes into the audit trail.")
