"""Refusing early what a velocity limit has no room for; the intent's own commit is what keeps the limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qtg_dagster.domain.amounts import Amount
from qtg_dagster.domain.velocity import VelocityLimit

if TYPE_CHECKING:
    from qtg_dagster.engine.ports import Store

_FRESH_SECONDS = 1.0


class VelocityWatch:
    """What was left of each limit a moment ago: read once a second at most, because nearly always all is well."""

    def __init__(self, store: Store, network_class: str) -> None:
        self._store = store
        self._network_class = network_class
        self._limits: dict[str, VelocityLimit] = {}
        self._read_at = float("-inf")

    async def check(self, asset: str, amount: Amount, *, field: str) -> None:
        """Raise `RiskControlViolated` when the limit of this asset, by its inventory key, has not so much left."""
        if time.monotonic() - self._read_at >= _FRESH_SECONDS:
            limits = await self._store.velocity_limits(self._network_class)
            self._limits = {limit.asset: limit for limit in limits}
            self._read_at = time.monotonic()
        limit = self._limits.get(asset)
        if limit is not None:
            limit.check(amount.base_units, field=field)
