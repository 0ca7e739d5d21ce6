"""CCIP sends whose end nobody knows."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.store.ccip_sends import StrandedSend
from qtg_dagster.store.ccip_sends import stranded_sends as read_stranded
from qtg_dagster.upkeep.alerts.looking import MOST, Look, Source


async def find(look: Look) -> list[Condition]:
    """Each send that a person should look for."""
    async with look.database.transaction() as tx:
        return [condition(one) for one in await read_stranded(tx, look.network_class, most=MOST)]


def condition(one: StrandedSend) -> Condition:
    """The alert of one send."""
    evidence = {"where": one.attention, "since": f"{one.stranded_at:%Y-%m-%d %H:%M:%S} UTC"}
    if one.message_id:
        evidence["message id"] = one.message_id
    return Condition(
        AlertKind.CCIP_STRANDED,
        f"send {one.id}",
        Severity.CRITICAL,
        f"nobody knows the end of CCIP send {one.id}",
        evidence,
        (),
        ("qtg doctor",),
        "capital_transfers",
    )


SOURCE = Source("CCIP sends", frozenset({AlertKind.CCIP_STRANDED}), find)
