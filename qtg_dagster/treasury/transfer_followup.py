"""Following capital transfers up: begun, settled with their movement, or shown to people with what they wait for.

Approves nothing and starts no second movement where the first may have moved money: see `domain.capital_transfers`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import structlog

from qtg_dagster.domain.capital_transfers import Attention, MovementStanding, Step, TransferState, Verdict, verdict
from qtg_dagster.domain.core_group import CoreGroup
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.engine.parts import Engine
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.settings import Settings
from qtg_dagster.store.capital_transfers import (
    Transfer,
    count_unapproved,
    lock_open_transfer,
    move_transfer,
    open_transfers,
    read_transfer,
    show_transfer,
)
from qtg_dagster.store.core_group import core_group
from qtg_dagster.store.database import Database, Transaction
from qtg_dagster.store.transfer_progress import count_due_transfers, read_progress
from qtg_dagster.treasury.capital_transfers import begin, note
from qtg_dagster.treasury.transfer_standing import movement_of
from qtg_dagster.treasury.transfer_waiting import waiting_for

log = structlog.get_logger("qtg.treasury")

ACTOR = "capital_transfer_followup"
_BATCH = 50
_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What one pass came to: how many transfers it looked at, and what became of those that changed."""

    looked_at: int
    changes: Counter[str] = field(default_factory=Counter)

    @property
    def changed(self) -> int:
        return self.changes.total()


async def follow_up_pending_capital_transfers(engine: Engine) -> FollowUp:
    """Look once at every transfer that has not ended, oldest first, each in a transaction of its own.

    One that another follows up at this moment is left to it. What goes wrong with one stops no other, and is raised
    when all have been looked at.
    """
    network_class = engine.settings.network_class
    group = await core_group(engine.database, network_class)
    looked_at, changes, failures = 0, Counter[str](), list[Exception]()
    last = None
    while True:
        async with engine.database.transaction() as tx:
            batch = await open_transfers(tx, network_class, after=last, most=_BATCH)
        for last in batch:
            try:
                changes[await follow_up(engine, last[1], group)] += 1
            except Exception as error:  # raised below, when the others have had their turn
                log.warning("transfer not followed up", transfer=last[1], exc_info=True)
                failures.append(error)
        looked_at += len(batch)
        if len(batch) < _BATCH:
            break
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {looked_at} capital transfers were not followed up", failures)
    del changes[_NOTHING]
    return FollowUp(looked_at, changes)


async def count_due(database: Database, settings: Settings) -> int:
    """Transfers that a pass would have to look at, so that a schedule can ask before it starts a run."""
    async with database.transaction() as tx:
        return await count_due_transfers(
            tx, settings.network_class, worker=ACTOR, stale_seconds=settings.capital_transfer_stale_seconds
        )


async def follow_up(engine: Engine, transfer_id: str, group: CoreGroup) -> str:
    """Look at one transfer; says what became of it."""
    async with engine.database.transaction() as tx:
        transfer = await lock_open_transfer(tx, engine.settings.network_class, transfer_id)
        if transfer is None:
            return _NOTHING
        if transfer.state is TransferState.REQUESTED:
            await begin(engine, tx, transfer, actor=ACTOR)
            done = "begun"
        elif transfer.movement_id is None:
            done = _NOTHING  # no movement could be made; a person has been told
        else:
            done = await _after_movement(engine, tx, transfer, group)
        fault_point(FaultPoint.TRANSFER_FOLLOWED)
    return done


async def _after_movement(engine: Engine, tx: Transaction, transfer: Transfer, group: CoreGroup) -> str:
    movement = await movement_of(engine, tx, transfer)
    found = verdict(movement, asks_left=await _asks_left(engine, tx, transfer))
    match found.step:
        case Step.SETTLE:
            await move_transfer(tx, transfer, TransferState.SETTLED)
            await note(tx, transfer, "settle", ACTOR, {"movement_request_id": transfer.movement_id})
            return "settled"
        case Step.ASK_AGAIN:
            return await _ask_again(engine, tx, transfer, found)
        case Step.STOP:
            return await _stop(tx, transfer, found)
        case Step.GO_ON:
            return await _go_on(engine, tx, transfer, movement, group)


async def _asks_left(engine: Engine, tx: Transaction, transfer: Transfer) -> int:
    """How often approval may still be asked for without a person's word: not for what has been shown to one."""
    if transfer.state is not TransferState.MOVING or transfer.overdue:
        return 0
    inventory = engine.inventory
    try:
        source = inventory.endpoint(transfer.source, field="source")
        destination = inventory.endpoint(transfer.destination, field="destination")
        _, route = inventory.route(source, destination, transfer.asset)
    except QtgError:  # what is not in the inventory any more allows nothing
        return 0
    return route.approval_rounds - await count_unapproved(tx, transfer.transfer_id)


async def _ask_again(engine: Engine, tx: Transaction, transfer: Transfer, found: Verdict) -> str:
    await move_transfer(tx, transfer, TransferState.REQUESTED, new_attempt=True)
    await note(tx, transfer, "ask_again", ACTOR, {"because": found.because, "attempt_no": transfer.attempt_no + 1})
    await begin(engine, tx, await read_transfer(tx, transfer.network_class, transfer.transfer_id), actor=ACTOR)
    return "asked again"


async def _stop(tx: Transaction, transfer: Transfer, found: Verdict) -> str:
    """Show a person what stopped a transfer, once for each reason."""
    assert found.attention is not None  # noqa: S101 - whoever stops says why
    attention = found.attention, found.because
    if transfer.state is TransferState.NEEDS_ATTENTION:
        if attention == (transfer.attention_kind, transfer.attention):
            return _NOTHING
        await show_transfer(tx, transfer, attention)
    else:
        await move_transfer(tx, transfer, TransferState.NEEDS_ATTENTION, attention=attention)
    await note(tx, transfer, "surface", ACTOR, {"kind": found.attention, "because": found.because})
    return "stopped"


async def _go_on(
    engine: Engine, tx: Transaction, transfer: Transfer, movement: MovementStanding | None, group: CoreGroup
) -> str:
    """MOVING, and shown to people when it is late."""
    assert movement is not None  # noqa: S101 - one that is gone has stopped
    late = await _lateness(engine, tx, transfer, movement)
    attention = (late, await waiting_for(engine, tx, movement.request_id, group)) if late is not None else None
    if transfer.state is not TransferState.MOVING:
        await move_transfer(tx, transfer, TransferState.MOVING, attention=attention)
        await note(tx, transfer, "go_on", ACTOR, {"movement_state": movement.state, "late": late})
        return "goes on"
    shown = (transfer.attention_kind, transfer.attention) if transfer.attention_kind is not None else None
    if attention == shown:
        return _NOTHING
    await show_transfer(tx, transfer, attention)
    if attention is None:
        await note(tx, transfer, "go_on", ACTOR, {"movement_state": movement.state, "late": None})
        return "goes on"
    await note(tx, transfer, "surface", ACTOR, {"kind": attention[0], "because": attention[1]})
    return "surfaced"


async def _lateness(
    engine: Engine, tx: Transaction, transfer: Transfer, movement: MovementStanding
) -> Attention | None:
    if transfer.overdue:
        return Attention.OVERDUE
    progress = await read_progress(
        tx,
        movement.request_id,
        since=transfer.state_since,
        stale_seconds=engine.settings.capital_transfer_stale_seconds,
    )
    return Attention.STALE if progress.stale else None
