"""Setting velocity limits, and taking them away."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.statements import statement
from qtg_dagster.store.velocity import limit_of

# Whoever writes an intent locks rows of this table: none of them is under way while a limit is being set, so what they
# have spent is counted.
_HOLD = text("LOCK TABLE qtg.velocity_limits IN EXCLUSIVE MODE")
_SET = text("""
    INSERT INTO qtg.velocity_limits AS v (network_class, asset, decimals, daily_units, set_by, reason)
    VALUES (:network_class, :asset, :decimals, :daily_units, :actor, :reason)
    ON CONFLICT (network_class, asset) DO UPDATE
    SET decimals = excluded.decimals, daily_units = excluded.daily_units, set_by = excluded.set_by,
        reason = excluded.reason, set_at = now()
""")
_COUNT_TODAY = text("""
    INSERT INTO qtg.velocity_spends (network_class, asset, day, units)
    SELECT :network_class, :asset, (now() AT TIME ZONE 'UTC')::date,
           greatest(0, coalesce(sum(gone.base_units - coalesce(back.base_units, 0)), 0))
    FROM qtg.ledger_lines gone
    JOIN qtg.movement_requests r ON r.id = gone.request_id AND r.network_class = :network_class
    LEFT JOIN qtg.ledger_lines back
      ON back.request_node_id = gone.request_node_id AND back.attempt_no = gone.attempt_no
     AND back.entry_kind = 'return'
    WHERE gone.entry_kind = 'departure' AND gone.asset = :asset
      AND (gone.posted_at AT TIME ZONE 'UTC')::date = (now() AT TIME ZONE 'UTC')::date
    ON CONFLICT (network_class, asset, day) DO UPDATE SET units = excluded.units
""")
_CLEAR = text("DELETE FROM qtg.velocity_limits WHERE network_class = :network_class AND asset = :asset RETURNING asset")


async def read_limits(transaction: Transaction, network_class: str) -> list[VelocityLimit]:
    """The limits that stand, as this transaction sees them."""
    found = await transaction.execute(statement("velocity_limits"), {"network_class": network_class})
    return [limit_of(dict(row)) for row in found.mappings()]


async def write_limit(
    transaction: Transaction,
    network_class: str,
    *,
    asset: str,
    decimals: int,
    daily_units: int,
    actor: str,
    reason: str,
) -> None:
    """Set the limit of an asset; what has left today already counts."""
    bound = {"network_class": network_class, "asset": asset}
    await transaction.execute(_HOLD)
    given = {"decimals": decimals, "daily_units": daily_units, "actor": actor, "reason": reason}
    await transaction.execute(_SET, {**bound, **given})
    await transaction.execute(_COUNT_TODAY, bound)


async def delete_limit(transaction: Transaction, network_class: str, asset: str) -> bool:
    """Take the limit of an asset away; says whether there was one."""
    bound = {"network_class": network_class, "asset": asset}
    await transaction.execute(_HOLD)
    return (await transaction.execute(_CLEAR, bound)).one_or_none() is not None
