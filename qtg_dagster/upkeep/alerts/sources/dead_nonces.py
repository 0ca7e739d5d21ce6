"""Nonces that hold up all that their sender signs."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.upkeep.alerts.looking import Look, Source
from qtg_dagster.upkeep.nonce_alarms import NonceAlarm, find_alarms


async def find(look: Look) -> list[Condition]:
    """Each nonce that somebody must do something about."""
    return [condition(one) for one in await find_alarms(look.database, look.settings)]


def condition(one: NonceAlarm) -> Condition:
    """The alert of one nonce."""
    return Condition(
        AlertKind.DEAD_NONCE,
        one.name,
        Severity.CRITICAL,
        f"nonce {one.name} needs a person",
        {"what": one.told},
        (),
        ("qtg nonce list",),
        "evm_nonces",
    )


SOURCE = Source("nonces", frozenset({AlertKind.DEAD_NONCE}), find)
