"""Movements that stopped: their evidence, and what a person may do about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qtg_dagster.domain.actions import Standing, allowed_actions
from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.domain.requests import LockedRequest
from qtg_dagster.domain.states import RequestState
from qtg_dagster.store.alert_sights import StoppedMovement, TroubledNode, stopped_movements, troubled_nodes
from qtg_dagster.store.pending import Pending
from qtg_dagster.upkeep.alerts.looking import Look, Source

KIND = AlertKind.MANUAL_INTERVENTION
#: Movements described in one look; of the others it is said that they stand, and the next look describes them.
MOST_DESCRIBED = 25


async def find(look: Look) -> list[Condition]:
    """Each movement in MANUAL_INTERVENTION; one that stands as it did before is not read again."""
    async with look.database.transaction() as tx:
        stopped = await stopped_movements(tx, look.network_class, RequestState.MANUAL_INTERVENTION.value)
    standing = {one.request_id: look.known.get((KIND.value, one.request_id), {}) for one in stopped}
    news = [one for one in stopped if standing[one.request_id].get("mark") != one.mark]
    described = {one.request_id: await _described(look, one) for one in news[:MOST_DESCRIBED]}
    return [described.get(one.request_id) or _as_known(one, standing[one.request_id]) for one in stopped]


async def _described(look: Look, one: StoppedMovement) -> Condition:
    async with look.database.transaction() as tx:
        nodes = await troubled_nodes(tx, one.request_id)
    request = await Pending(look.database).read_request(one.request_id, look.network_class)
    return condition(one, nodes, possible(request))


def possible(request: LockedRequest) -> Sequence[str]:
    """What may be done, as far as the database knows: which executors can adopt, only a running platform knows."""
    standing = Standing(
        request.stored.plan,
        request.request_state,
        request.node_states,
        expired=request.expired,
        open_attempts=request.open_attempts,
    )
    return [str(each) for each in allowed_actions(standing)]


def condition(one: StoppedMovement, nodes: Sequence[TroubledNode], allowed: Sequence[str]) -> Condition:
    """The alert of one stopped movement."""
    amount = f"{one.intent.get('amount', '')} {one.intent.get('asset', '')}".strip()
    evidence: dict[str, Any] = {"movement": one.request_id, "template": one.template_key}
    if amount:
        evidence["amount"] = amount
    evidence |= {node.node_key: _told(node) for node in nodes}
    for node in nodes:
        if node.facts:
            evidence[f"{node.node_key} evidence"] = dict(node.facts)
    return Condition(
        KIND,
        one.request_id,
        Severity.CRITICAL,
        _title(one, amount),
        evidence,
        allowed,
        _look(one),
        "movements",
        one.mark,
    )


def _as_known(one: StoppedMovement, known: Mapping[str, Any]) -> Condition:
    """As it was described, or by its name alone until a later look describes it."""
    evidence = known.get("evidence", {"movement": one.request_id})
    return Condition(
        KIND,
        one.request_id,
        Severity.CRITICAL,
        _title(one, str(evidence.get("amount", ""))),
        evidence,
        known.get("allowed", ()),
        _look(one),
        "movements",
        known.get("mark", ""),
    )


def _look(one: StoppedMovement) -> tuple[str, ...]:
    return (f"qtg movement show {one.request_id} --journal",)


def _title(one: StoppedMovement, amount: str) -> str:
    of = f" of {amount}" if amount else ""
    return f"movement {one.request_id}{of} ({one.template_key}) stopped and needs a person"


def _told(node: TroubledNode) -> str:
    refs = " ".join(f"{name}={value}" for name, value in sorted(node.provider_refs.items()))
    problem = f"{node.error_code}: {node.error_message or ''}".strip(": ") if node.error_code else ""
    return " ".join(part for part in (node.node_state, problem, refs) if part)


SOURCE = Source("movements that stopped", frozenset({KIND}), find)
