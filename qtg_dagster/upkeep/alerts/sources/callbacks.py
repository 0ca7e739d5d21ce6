"""Callbacks that are not tried any more, by receiver: one broken receiver is one alert."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.store.alert_sights import DeadLetters, dead_letters
from qtg_dagster.upkeep.alerts.looking import Look, Source


async def find(look: Look) -> list[Condition]:
    """Each receiver with callbacks in the dlq."""
    async with look.database.transaction() as tx:
        return [condition(one) for one in await dead_letters(tx, look.network_class)]


def condition(one: DeadLetters) -> Condition:
    """The alert of one receiver."""
    many = "1 callback was" if one.callbacks == 1 else f"{one.callbacks} callbacks were"
    evidence = {
        "receiver": one.receiver,
        "oldest": f"{one.oldest:%Y-%m-%d %H:%M:%S} UTC",
        "newest": f"{one.newest:%Y-%m-%d %H:%M:%S} UTC",
    }
    if one.last_error:
        evidence["last error"] = one.last_error
    return Condition(
        AlertKind.CALLBACK_DLQ,
        one.receiver,
        Severity.WARNING,
        f"{many} given up: {one.receiver} did not take them",
        evidence,
        ("have the receiver mended, then send them again",),
        ("qtg callback list",),
        "movements",
    )


SOURCE = Source("callbacks given up", frozenset({AlertKind.CALLBACK_DLQ}), find)
