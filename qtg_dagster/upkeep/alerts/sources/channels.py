"""Channels that messages do not get through to; the others are told of it."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.store.alert_sights import FailingChannel, failing_channels
from qtg_dagster.upkeep.alerts.looking import Look, Source

#: Tries of a message that are worth an alert: with its pauses, about a minute.
TRIES = 5


async def find(look: Look) -> list[Condition]:
    """Each channel with a message that was tried so often."""
    async with look.database.transaction() as tx:
        return [condition(one) for one in await failing_channels(tx, look.network_class, TRIES)]


def condition(one: FailingChannel) -> Condition:
    """The alert of one channel."""
    return Condition(
        AlertKind.CHANNEL_FAILING,
        one.channel,
        Severity.WARNING,
        f"messages do not get through to the channel {one.channel}",
        {"oldest": f"{one.oldest:%Y-%m-%d %H:%M:%S} UTC", "last error": one.last_error or ""},
        (),
        (f"qtg alert test {one.channel} --by NAME",),
        "alerts",
    )


SOURCE = Source("channels", frozenset({AlertKind.CHANNEL_FAILING}), find)
