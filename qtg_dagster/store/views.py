"""Reading movements, for people: states, times, amounts and hashes, never a secret."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.errors import NotFound
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.store.database import Transaction

_MOVEMENTS = text("""
    SELECT r.id::text AS request_id, r.request_state, t.template_key, v.version AS template_version, r.intent,
           r.compiled_plan_hash, r.requested_by, r.reason, r.current_frontier, r.created_at, r.approved_at,
           r.finished_at, r.expires_at, coalesce((v.approval ->> 'required')::integer, 1) AS approvals_required,
           coalesce((SELECT array_agg(a.actor ORDER BY a.decided_at) FROM qtg.movement_approvals a
                     WHERE a.request_id = r.id AND a.decision = 'approved'), '{}') AS approved_by,
           (SELECT jsonb_agg(jsonb_build_object(
                'node_key', n.node_key, 'node_kind', n.node_kind, 'node_state', n.node_state,
                'attempt_no', n.attempt_no, 'provider_refs', n.provider_refs, 'error_code', n.error_code,
                'error_message', n.error_message, 'started_at', n.started_at, 'submitted_at', n.submitted_at,
                'completed_at', n.completed_at, 'next_look_at', n.next_look_at) ORDER BY p.position)
            FROM qtg.movement_request_nodes n JOIN qtg.movement_plan_nodes p ON p.id = n.plan_node_id
            WHERE n.request_id = r.id) AS nodes,
           coalesce((SELECT jsonb_agg(jsonb_build_array(e.from_node, e.to_node) ORDER BY e.id)
            FROM qtg.movement_plan_edges e WHERE e.plan_version_id = v.id), '[]'::jsonb) AS edges
    FROM qtg.movement_requests r
    JOIN qtg.movement_plan_versions v ON v.id = r.plan_version_id
    JOIN qtg.movement_templates t ON t.id = v.template_id
    WHERE r.network_class = :network_class
      AND (CAST(:request_ids AS text[]) IS NULL OR r.id = ANY (CAST(CAST(:request_ids AS text[]) AS uuid[])))
      AND (CAST(:finished_after AS timestamptz) IS NULL OR r.finished_at > CAST(:finished_after AS timestamptz))
    ORDER BY CASE WHEN CAST(:finished_after AS timestamptz) IS NOT NULL THEN r.finished_at END, r.created_at DESC
    LIMIT :most
""")
_STEPS = text("""
    SELECT s.id, n.node_key, s.attempt_no, s.step_kind, s.from_state, s.to_state, s.facts, s.actor, s.runner_id,
           s.recorded_at
    FROM qtg.movement_node_steps s
    JOIN qtg.movement_request_nodes n ON n.id = s.request_node_id
    WHERE n.request_id = CAST(:request_id AS uuid)
    ORDER BY s.id
""")


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as an operator sees it."""

    node_key: str
    node_kind: str
    node_state: NodeState
    attempt_no: int
    provider_refs: dict[str, Any]
    error_code: str | None
    error_message: str | None
    started_at: datetime | None
    submitted_at: datetime | None
    completed_at: datetime | None
    next_look_at: datetime | None


@dataclass(frozen=True, slots=True)
class MovementView:
    """One movement as an operator sees it; nodes in the plan's order."""

    request_id: str
    request_state: RequestState
    template_key: str
    template_version: int
    intent: dict[str, Any]
    compiled_plan_hash: str
    requested_by: str
    reason: str
    current_frontier: tuple[str, ...]
    created_at: datetime
    approved_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    approvals_required: int
    approved_by: tuple[str, ...]
    nodes: tuple[NodeView, ...]
    edges: tuple[tuple[str, str], ...]

    @property
    def approvals(self) -> str:
        """For people: how many approvals there are of how many, and whose."""
        names = f": {', '.join(self.approved_by)}" if self.approved_by else ""
        return f"{len(self.approved_by)} of {self.approvals_required}{names}"

    def node(self, node_key: str) -> NodeView:
        return next(node for node in self.nodes if node.node_key == node_key)


@dataclass(frozen=True, slots=True)
class StepView:
    """One line of a movement's journal."""

    id: int
    node_key: str
    attempt_no: int
    step_kind: str
    from_state: str | None
    to_state: str | None
    facts: dict[str, Any]
    actor: str | None
    runner_id: int | None
    recorded_at: datetime


async def read_movements(
    transaction: Transaction,
    network_class: str,
    *,
    request_ids: list[str] | None = None,
    finished_after: datetime | None = None,
    most: int = 50,
) -> list[MovementView]:
    """Movements, newest first; with `finished_after`, those that ended since, in the order they ended."""
    bound = {
        "network_class": network_class,
        "request_ids": request_ids,
        "finished_after": finished_after,
        "most": most,
    }
    return [_movement(row) for row in (await transaction.execute(_MOVEMENTS, bound)).mappings()]


async def read_movement(transaction: Transaction, network_class: str, request_id: str) -> MovementView:
    """One movement; raises `NotFound`."""
    found = await read_movements(transaction, network_class, request_ids=[request_id], most=1)
    if not found:
        raise NotFound(f"there is no movement request {request_id!r} in network class {network_class}")
    return found[0]


async def read_steps(transaction: Transaction, request_id: str) -> list[StepView]:
    """The journal of a movement, oldest first."""
    rows = (await transaction.execute(_STEPS, {"request_id": request_id})).mappings()
    return [StepView(**row) for row in rows]


def _movement(row: Any) -> MovementView:
    values = dict(row)
    nodes = tuple(_node(node) for node in values.pop("nodes"))
    edges = tuple((edge[0], edge[1]) for edge in values.pop("edges"))
    values["request_state"] = RequestState(values["request_state"])
    values["approved_by"] = tuple(values["approved_by"])
    values["current_frontier"] = tuple(values["current_frontier"])
    return MovementView(nodes=nodes, edges=edges, **values)


def _node(document: dict[str, Any]) -> NodeView:
    times = {
        key: datetime.fromisoformat(document[key]) if document[key] else None
        for key in ("started_at", "submitted_at", "completed_at", "next_look_at")
    }
    return NodeView(**{**document, **times, "node_state": NodeState(document["node_state"])})
