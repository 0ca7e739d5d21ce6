"""Velocity limits as the engine reads them; the database itself keeps them (`schema/velocity.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.domain.velocity import VelocityLimit
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.statements import native


class Velocity(OnDatabase):
    """What is left of the limits."""

    async def velocity_limits(self, network_class: str) -> list[VelocityLimit]:
        """The limits that stand, each with what of it is used up today."""
        async with self._database.connection() as connection:
            found = await connection.execute(native("velocity_limits"), {"network_class": network_class})
            return [limit_of(row) for row in await found.fetchall()]


def limit_of(row: Mapping[str, Any]) -> VelocityLimit:
    """The limit of a row of `velocity_limits.sql`."""
    return VelocityLimit(
        asset=row["asset"],
        decimals=row["decimals"],
        daily_units=int(row["daily_units"]),
        spent_units=int(row["spent_units"]),
        set_by=row["set_by"],
        reason=row["reason"],
    )
