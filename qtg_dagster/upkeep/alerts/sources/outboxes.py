"""Outboxes that have fallen behind: what others are to be told is not told."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.store.alert_sights import Behind, outboxes_behind
from qtg_dagster.upkeep.alerts.looking import Look, Source


async def find(look: Look) -> list[Condition]:
    """Each outbox with entries that have been due for longer than MG_NOTIFY_BEHIND_SECONDS."""
    older = look.settings.notify_behind_seconds
    async with look.database.transaction() as tx:
        return [condition(one) for one in await outboxes_behind(tx, look.network_class, older)]


def condition(one: Behind) -> Condition:
    """The alert of one outbox."""
    evidence = {"waiting": str(one.entries)}
    if one.oldest is not None:
        evidence["due since"] = f"{one.oldest:%Y-%m-%d %H:%M:%S} UTC"
    return Condition(
        AlertKind.OUTBOX_BEHIND,
        one.outbox,
        Severity.WARNING,
        f"{one.outbox} are not sent",
        evidence,
        (),
        ("qtg workers", "qtg doctor"),
        "workers",
    )


SOURCE = Source("outboxes", frozenset({AlertKind.OUTBOX_BEHIND}), find)
