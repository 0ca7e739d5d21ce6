"""Velocity limits as operators set them: how much of an asset may leave in one day (UTC)."""

from __future__ import annotations

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.velocity_setting import delete_limit, read_limits, write_limit


async def set_velocity_limit(engine: Engine, asset: str, daily: str, *, actor: str, reason: str) -> VelocityLimit:
    """Let at most so much of an asset leave a day, over all movements; what has left today already counts.

    Raises `InvalidInput` for an unknown asset, a malformed amount or an empty reason.
    """
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say why: it goes into the audit trail.")
    known = engine.inventory.asset(asset, field="asset")
    amount = Amount.parse(known, daily, field="daily")
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        await write_limit(
            tx,
            network_class,
            asset=asset,
            decimals=known.decimals,
            daily_units=amount.base_units,
            actor=actor,
            reason=reason,
        )
        details = {"asset": asset, "daily": amount.to_text(), "reason": reason}
        await audit(
            tx,
            network_class=network_class,
            actor=actor,
            action="set_velocity_limit",
            subject_id=asset,
            subject_type="velocity_limit",
            details=details,
        )
        [limit] = [each for each in await read_limits(tx, network_class) if each.asset == asset]
    return limit


async def clear_velocity_limit(engine: Engine, asset: str, *, actor: str, reason: str) -> None:
    """Take the limit of an asset away. Raises `NotFound` when there is none, `InvalidInput` for an empty reason."""
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say why: it goes into the audit trail.")
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        if not await delete_limit(tx, network_class, asset):
            raise NotFound(f"no velocity limit stands on {asset} in network class {network_class}")
        await audit(
            tx,
            network_class=network_class,
            actor=actor,
            action="clear_velocity_limit",
            subject_id=asset,
            subject_type="velocity_limit",
            details={"reason": reason},
        )
