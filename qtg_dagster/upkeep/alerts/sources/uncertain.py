"""Nodes of which nobody has known for long whether they took effect."""

from __future__ import annotations

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.store.alert_sights import UncertainNode, uncertain_nodes
from qtg_dagster.upkeep.alerts.looking import Look, Source

#: So many times the threshold, and it is critical.
_CRITICAL_TIMES = 4


async def find(look: Look) -> list[Condition]:
    """Each node that has been UNKNOWN or SUBMITTING for longer than MG_NOTIFY_UNKNOWN_SECONDS."""
    older = look.settings.notify_unknown_seconds
    async with look.database.transaction() as tx:
        found = await uncertain_nodes(tx, look.network_class, older)
    return [condition(one, older) for one in found]


def condition(one: UncertainNode, threshold_seconds: float) -> Condition:
    """The alert of one node; its evidence stays the same while nothing new is known."""
    severity = Severity.CRITICAL if one.age_seconds >= threshold_seconds * _CRITICAL_TIMES else Severity.WARNING
    evidence = {
        "movement": one.request_id,
        "node": f"{one.node_key}, attempt {one.attempt_no}, by {one.executor_key}",
        "since": f"{one.since:%Y-%m-%d %H:%M:%S} UTC",
    }
    if one.provider_refs:
        evidence["references"] = " ".join(f"{name}={value}" for name, value in sorted(one.provider_refs.items()))
    if one.error_code:
        evidence["last answer"] = f"{one.error_code}: {one.error_message or ''}".strip(": ")
    return Condition(
        AlertKind.UNCERTAIN_NODE,
        f"{one.request_id} {one.node_key}",
        severity,
        f"node {one.node_key} of movement {one.request_id} is {one.node_state}: it may have moved money",
        evidence,
        ("wait: it is looked at again by itself", "adopt a transaction or withdrawal that is found at the provider"),
        (f"qtg movement show {one.request_id} --journal", "qtg workers", "qtg doctor"),
        "movements",
    )


SOURCE = Source("uncertain nodes", frozenset({AlertKind.UNCERTAIN_NODE}), find)
