"""How a transfer's movement stands, read or held, as the rules of `domain.capital_transfers` want it."""

from __future__ import annotations

from qtg_dagster.domain.capital_transfers import MovementStanding, Standing
from qtg_dagster.domain.errors import NotFound
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.capital_transfers import Transfer
from qtg_dagster.store.database import Transaction


async def standing_of(engine: Engine, tx: Transaction, transfer: Transfer, *, held: bool = False) -> Standing:
    """A transfer and its movement; with `held`, nobody moves the movement either until the transaction ends."""
    movement = await movement_of(engine, tx, transfer, held=held)
    return Standing(transfer.state, transfer.last_movement_id is not None, movement)


async def movement_of(
    engine: Engine, tx: Transaction, transfer: Transfer, *, held: bool = False
) -> MovementStanding | None:
    """The newest movement; None when there is none, or when it is not stored any more.

    That of an earlier attempt counts while the present one has none: it has ended, which is seen here once more.
    """
    if transfer.last_movement_id is None:
        return None
    async with engine.store.deciding(tx) as decisions:
        read = decisions.lock_request if held else decisions.read_request
        try:
            request = await read(transfer.last_movement_id, transfer.network_class)
        except NotFound:
            return None
    return MovementStanding(
        request.request_id, request.stored.plan, request.request_state, request.node_states, request.open_attempts
    )
