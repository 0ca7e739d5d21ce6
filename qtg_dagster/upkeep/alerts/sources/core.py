"""The core group standing still after too many deaths."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.core_group import CoreGroup, CoreStanding
from qtg_dagster.store.core_group import core_group
from qtg_dagster.upkeep.alerts.looking import Look, Source


async def find(look: Look) -> list[Condition]:
    """The halt, if the group is halted."""
    return conditions(await core_group(look.database, look.network_class))


def conditions(group: CoreGroup) -> list[Condition]:
    """The alert of a halted group; none of one that runs, or starts again by itself."""
    if group.standing is not CoreStanding.HALTED or group.last is None:
        return []
    return [
        Condition(
            AlertKind.CORE_HALTED,
            "core group",
            Severity.CRITICAL,
            "the core workers are halted: no movement goes on",
            {"since": f"{group.last.occurred_at:%Y-%m-%d %H:%M:%S} UTC", "reason": group.last.reason},
            ("qtg core resume --by NAME --reason TEXT, once it is known why they died",),
            ("qtg core status", "qtg doctor"),
            "workers",
        )
    ]


SOURCE = Source("core group", frozenset({AlertKind.CORE_HALTED}), find)
