"""What a transfer that goes on waits for, in words for people: whose approval, which node, what holds it back."""

from __future__ import annotations

from qtg_dagster.domain.approvals import approver_objection
from qtg_dagster.domain.core_group import CoreGroup, CoreStanding
from qtg_dagster.domain.requests import LockedRequest
from qtg_dagster.domain.states import UNSETTLED_NODE_STATES, NodeState, RequestState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.breakers import held_nodes
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.transfer_progress import NodeSince, read_node_times


async def waiting_for(engine: Engine, tx: Transaction, request_id: str, group: CoreGroup) -> str:
    """What a movement that has not ended waits for. Says since when, never how long: the words stay as they are."""
    async with engine.store.deciding(tx) as decisions:
        request = await decisions.read_request(request_id, engine.settings.network_class)
    nodes = await read_node_times(tx, request_id)
    parts: list[str] = []
    if request.request_state is RequestState.PENDING_APPROVAL:
        parts.append(_approval(request))
    else:
        held = await held_nodes(tx, request_id)
        parts += [_node(node, held.get(node.node_key)) for node in nodes if _is_open(node)]
        if group.standing is CoreStanding.HALTED:  # a pause between two starts is over before anybody has read of it
            parts.append(f"nothing is started: {group.explain()}")
    return f"movement {request_id} is {request.request_state}: {'; '.join(parts) or 'nothing of it is under way'}"


def _approval(request: LockedRequest) -> str:
    policy = request.stored.plan.approval
    asker, approved = request.requested_by, request.approved_by
    left = [
        name
        for name in policy.approvers
        if not approver_objection(policy, requested_by=asker, approved_by=approved, actor=name)
    ]
    nobody_else = "" if policy.self_approval else f" other than {request.requested_by}"
    who = f"one of {', '.join(left)}" if left else f"anybody{nobody_else}"
    so_far = f"{len(request.approved_by)} of {policy.required} approvals"
    if request.expires_at is None:
        return f"it waits for approval by {who}; {so_far}"
    until = f"{request.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if request.expired:
        return f"nobody approved it before {until}; {so_far}, and it is not yet EXPIRED"
    return f"it waits for approval by {who} until {until}; {so_far}"


def _is_open(node: NodeSince) -> bool:
    return node.node_state in (*UNSETTLED_NODE_STATES, NodeState.READY, NodeState.FAILED)


def _node(node: NodeSince, held_by: str | None) -> str:
    if held_by is not None:
        return f"{node}, held back by {held_by} (see `qtg breaker list`)"
    if node.node_kind == "manual":
        return f"{node}, and a person has to do it"
    return str(node)
