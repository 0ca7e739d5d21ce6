"""How far a transfer's movement has come, and since when each of its nodes stands where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import Transaction

# A node's own time of change would not do: every look at it writes the row.
_NODES = text("""
    SELECT n.node_key, n.node_kind, n.node_state, n.error_code,
           coalesce((SELECT max(s.recorded_at) FROM qtg.movement_node_steps s
                     WHERE s.request_node_id = n.id AND s.to_state = n.node_state),
                    r.approved_at, r.created_at) AS since
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id
    JOIN qtg.movement_plan_nodes p ON p.id = n.plan_node_id
    WHERE r.id = CAST(:request_id AS uuid)
    ORDER BY p.position
""")
_LAST_CHANGE = text("""
    SELECT changed.at AS last_change_at, changed.at < now() - make_interval(secs => :stale_seconds) AS stale
    FROM (SELECT greatest(
              r.created_at, r.approved_at, CAST(:since AS timestamptz),
              (SELECT max(a.decided_at) FROM qtg.movement_approvals a WHERE a.request_id = r.id),
              (SELECT max(s.recorded_at) FROM qtg.movement_node_steps s
               JOIN qtg.movement_request_nodes n ON n.id = s.request_node_id
               WHERE n.request_id = r.id AND s.to_state IS NOT NULL)) AS at
          FROM qtg.movement_requests r WHERE r.id = CAST(:request_id AS uuid)) AS changed
""")
# Whether a pass would find anything to do, so that a schedule starts no run for transfers that merely wait. One that is
# shown already is looked at again when its movement was written to since: by a transaction that may have begun before
# ours, hence the overlap. Once an hour everything is due, whatever this overlooks.
_COUNT_DUE = text("""
    SELECT count(*)
    FROM qtg.capital_transfer_requests t
    LEFT JOIN qtg.capital_transfer_attempts a ON a.transfer_id = t.id AND a.attempt_no = t.attempt_no
    LEFT JOIN qtg.movement_requests r ON r.id = a.movement_request_id
    CROSS JOIN LATERAL (
        SELECT max(n.updated_at) AS written_at, coalesce(bool_or(n.node_state = 'UNKNOWN'), false) AS unknown
        FROM qtg.movement_request_nodes n WHERE n.request_id = r.id
    ) AS nodes
    WHERE t.network_class = :network_class AND t.finished_at IS NULL
      AND CASE
          WHEN t.transfer_state = 'REQUESTED' THEN true
          WHEN a.movement_request_id IS NULL THEN false
          WHEN NOT EXISTS (SELECT FROM qtg.cycles c
                           WHERE c.network_class = t.network_class AND c.worker = :worker
                             AND c.cycle_key >= to_char(now() AT TIME ZONE 'UTC' - interval '1 hour', :key_format)
                             AND c.cycle_key < 'a')
          THEN true
          WHEN r.id IS NULL THEN t.attention_kind IS DISTINCT FROM 'movement_gone'
          WHEN t.attention IS NOT NULL
          THEN t.attention_kind = 'stale' AND t.wanted_by <= now()
               OR greatest(r.updated_at, nodes.written_at) > t.updated_at - interval '5 minutes'
          ELSE r.request_state NOT IN ('PENDING_APPROVAL', 'APPROVED', 'EXECUTING', 'WAITING_MANUAL_ACTION')
               OR nodes.unknown OR t.wanted_by <= now()
               OR greatest(
                      t.state_since, r.created_at, r.approved_at,
                      (SELECT max(p.decided_at) FROM qtg.movement_approvals p WHERE p.request_id = r.id),
                      (SELECT max(s.recorded_at) FROM qtg.movement_node_steps s
                       JOIN qtg.movement_request_nodes n ON n.id = s.request_node_id
                       WHERE n.request_id = r.id AND s.to_state IS NOT NULL)
                  ) < now() - make_interval(secs => :stale_seconds)
      END
""")
_KEY_FORMAT = 'YYYY-MM-DD"T"HH24:MI:SS"Z"'


@dataclass(frozen=True, slots=True)
class NodeSince:
    """A node, and since when it is in its state."""

    node_key: str
    node_kind: str
    node_state: NodeState
    error_code: str | None
    since: datetime

    def __str__(self) -> str:
        said = f" ({self.error_code})" if self.error_code else ""
        return f"{self.node_key} is {self.node_state}{said} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Progress:
    """When anything last changed, and whether that is too long ago."""

    last_change_at: datetime
    stale: bool


async def read_node_times(transaction: Transaction, request_id: str) -> list[NodeSince]:
    """The nodes of a movement in the plan's order."""
    rows = (await transaction.execute(_NODES, {"request_id": request_id})).mappings()
    return [NodeSince(**{**row, "node_state": NodeState(row["node_state"])}) for row in rows]


async def read_progress(
    transaction: Transaction, request_id: str, *, since: datetime, stale_seconds: float
) -> Progress:
    """When a movement's last node changed its state or its last approval came, but not before `since`."""
    bound = {"request_id": request_id, "since": since, "stale_seconds": float(stale_seconds)}
    row = (await transaction.execute(_LAST_CHANGE, bound)).one()
    return Progress(row.last_change_at, bool(row.stale))


async def count_due_transfers(
    transaction: Transaction, network_class: str, *, worker: str, stale_seconds: float
) -> int:
    """How many transfers a pass of that worker would have to look at now."""
    bound = {"network_class": network_class, "worker": worker, "stale_seconds": float(stale_seconds)}
    return int((await transaction.execute(_COUNT_DUE, {**bound, "key_format": _KEY_FORMAT})).scalar_one())
