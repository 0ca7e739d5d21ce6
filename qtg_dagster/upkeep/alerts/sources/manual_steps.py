"""Movements whose next step is a person's, as planned."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.states import RequestState
from qtg_dagster.store.alert_sights import StoppedMovement, stopped_movements
from qtg_dagster.upkeep.alerts.looking import Look, Source


async def find(look: Look) -> list[Condition]:
    """Each movement in WAITING_MANUAL_ACTION."""
    async with look.database.transaction() as tx:
        waiting = await stopped_movements(tx, look.network_class, RequestState.WAITING_MANUAL_ACTION.value)
    return [condition(one) for one in waiting]


def condition(one: StoppedMovement) -> Condition:
    """The alert of one movement."""
    return Condition(
        AlertKind.MANUAL_STEP,
        one.request_id,
        Severity.INFO,
        f"movement {one.request_id} ({one.template_key}) waits for a manual step",
        {"movement": one.request_id, "template": one.template_key},
        ("complete the step", "skip it"),
        (f"qtg movement show {one.request_id}",),
        "movements",
    )


SOURCE = Source("manual steps", frozenset({AlertKind.MANUAL_STEP}), find)
