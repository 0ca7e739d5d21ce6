"""Breakers that have been open for long: somebody may have forgotten one."""

from __future__ import annotations

from datetime import datetime

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.breakers import Breaker
from qtg_dagster.store.alerts import read_clock
from qtg_dagster.store.breakers import standing_breakers
from qtg_dagster.upkeep.alerts.looking import Look, Source


async def find(look: Look) -> list[Condition]:
    """Each breaker that is older than MG_NOTIFY_BREAKER_SECONDS."""
    async with look.database.transaction() as tx:
        now = await read_clock(tx)
        standing = await standing_breakers(tx, look.network_class)
    older = look.settings.notify_breaker_seconds
    return [found for one in standing if (found := condition(one, now, older)) is not None]


def condition(one: Breaker, now: datetime, older_seconds: float) -> Condition | None:
    """The alert of one breaker."""
    if (now - one.opened_at).total_seconds() < older_seconds:
        return None
    return Condition(
        AlertKind.BREAKER_OPEN,
        one.scope,
        Severity.INFO,
        f"the breaker on {one.scope} is still open",
        {
            "opened": f"{one.opened_at:%Y-%m-%d %H:%M:%S} UTC by {one.opened_by}",
            "reason": one.reason,
            "holds back": f"{one.held} nodes",
        },
        ("release it slowly", "close it"),
        ("qtg breaker list",),
        "movements",
    )


SOURCE = Source("breakers", frozenset({AlertKind.BREAKER_OPEN}), find)
