"""What counts as settled, table by table: the functions that delete and the questions about what remains share it.

In each text, `t` is the row and `keep` the window.
"""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.retention import Kind
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, UNSETTLED_NODE_STATES, NodeState
from qtg_dagster.store.schema.base import SCHEMA


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of one table, each settled by itself."""

    table: str
    when: str  # the time from which its window counts
    settled: str = "true"
    order: str = ""  # what an index gives, where that is not `when`

    @property
    def past(self) -> str:
        return f"{self.when} < now() - keep"

    @property
    def source(self) -> str:
        """The rows that may go, oldest first."""
        return f"{SCHEMA}.{self.table} t WHERE {self.past} AND {self.settled} ORDER BY {self.order or self.when}"


RULES: dict[Kind, Rule] = {
    # One in the dlq is kept until somebody sends it again; all of a movement that goes on, since they are numbered on.
    Kind.CALLBACKS: Rule(
        "movement_callback_outbox",
        "t.delivered_at",
        "t.status = 'delivered' AND EXISTS (SELECT FROM qtg.movement_requests r "
        "WHERE r.id = t.request_id AND r.finished_at IS NOT NULL)",
    ),
    # The entry itself stays for good, in audit_events; without it there, its outbox row does not go.
    Kind.AUDIT_OUTBOX: Rule(
        "audit_outbox", "t.promoted_at", "EXISTS (SELECT FROM qtg.audit_events e WHERE e.outbox_id = t.id)"
    ),
    # The newest of each holding stays, however old.
    Kind.BALANCE_SNAPSHOTS: Rule(
        "balance_snapshots",
        "t.recorded_at",
        "EXISTS (SELECT FROM qtg.balance_snapshots o WHERE o.venue_key = t.venue_key AND o.account = t.account "
        "AND o.wallet = t.wallet AND o.asset = t.asset AND o.recorded_at > t.recorded_at "
        "AND o.network_class = t.network_class)",
    ),
    Kind.BREAKER_STARTS: Rule(
        "breaker_starts",
        "(SELECT b.closed_at FROM qtg.breakers b WHERE b.id = t.breaker_id)",
        "t.breaker_id IN (SELECT b.id FROM qtg.breakers b WHERE b.closed_at < now() - keep)",
        "t.breaker_id",
    ),
    Kind.BREAKERS: Rule(
        "breakers", "t.closed_at", "NOT EXISTS (SELECT FROM qtg.breaker_starts s WHERE s.breaker_id = t.id)"
    ),
    Kind.ALERT_DELIVERIES: Rule(
        "alert_deliveries",
        "t.settled_at",
        "t.outcome <> 'pending' AND t.alert_id IN (SELECT a.id FROM qtg.alerts a WHERE a.resolved_at < now() - keep)",
        "t.alert_id",
    ),
    # One that people were told of stays until they were told that it is over.
    Kind.ALERTS: Rule(
        "alerts",
        "t.resolved_at",
        "(t.told_severity IS NULL OR t.resolution_told_at IS NOT NULL) "
        "AND NOT EXISTS (SELECT FROM qtg.alert_deliveries d WHERE d.alert_id = t.id)",
    ),
    # The newest says how the group stands.
    Kind.CORE_GROUP_EVENTS: Rule(
        "core_group_events",
        "t.occurred_at",
        "EXISTS (SELECT FROM qtg.core_group_events o WHERE o.network_class = t.network_class AND o.id > t.id)",
    ),
    # One whose lock is held lives, whatever its row says.
    Kind.RUNNERS: Rule(
        "runners",
        "t.started_at",
        "coalesce(t.ended_at, t.started_at) < now() - keep "
        "AND t.id NOT IN (SELECT l.runner_id FROM qtg.live_runners l)",
    ),
    # After its runner: a runner that ended badly and has no death on record would be taken for a new one.
    Kind.CORE_DEATHS: Rule(
        "core_deaths",
        "t.noticed_at",
        "NOT EXISTS (SELECT FROM qtg.runners r WHERE r.id = t.runner_id) "
        "AND NOT EXISTS (SELECT FROM qtg.runners r WHERE r.dagster_run_id = t.dagster_run_id)",
    ),
    Kind.CYCLES: Rule("cycles", "t.started_at"),
    # A limit looks at the day that it is; a return gives back to its departure's day, if that is still there.
    Kind.VELOCITY_SPENDS: Rule("velocity_spends", "(t.day + 1)::timestamp AT TIME ZONE 'UTC'"),
}

_ALIVE = sorted({NodeState.READY, *UNSETTLED_NODE_STATES})


def _listed(values: object) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))  # type: ignore[call-overload]


#: Whether the chain has executed a nonce for good: by its own node, by a later one of its sender, or by one deleted.
_USED_UP = """(n.node_state = 'COMPLETED' AND v.attempt_no = n.attempt_no
    OR EXISTS (SELECT FROM qtg.evm_nonce_floors f
               WHERE f.chain = v.chain AND f.sender = v.sender AND f.nonce >= v.nonce)
    OR EXISTS (SELECT FROM qtg.evm_nonce_reservation w JOIN qtg.movement_request_nodes o ON o.id = w.request_node_id
               WHERE w.chain = v.chain AND w.sender = v.sender AND w.nonce > v.nonce
                 AND w.reservation_state <> 'RELEASED' AND w.attempt_no = o.attempt_no
                 AND o.node_state = 'COMPLETED'))"""

#: Why a movement past its window stays: what is told -> what holds it.
HOLDS: dict[str, str] = {
    "not in a final state": f"t.request_state NOT IN ({_listed(FINAL_REQUEST_STATES)})",
    "a node is not settled": f"""EXISTS (SELECT FROM qtg.movement_request_nodes n
        WHERE n.request_id = t.id AND n.node_state IN ({_listed(_ALIVE)}))""",
    "a callback is not delivered": """EXISTS (SELECT FROM qtg.movement_callback_outbox c
        WHERE c.request_id = t.id AND c.status <> 'delivered')""",
    "an audit entry is not promoted": """EXISTS (SELECT FROM qtg.audit_outbox a
        WHERE a.subject_id = t.id::text AND a.promoted_at IS NULL)""",
    "a nonce of it may still be used": f"""EXISTS (SELECT FROM qtg.movement_request_nodes n
        JOIN qtg.evm_nonce_reservation v ON v.request_node_id = n.id
        WHERE n.request_id = t.id AND v.reservation_state NOT IN ('RELEASED', 'CLOSED')
          AND NOT (v.reservation_state = 'BOUND' AND {_USED_UP}))""",
    # A person is to see that the money moved after all, or a transfer to oneself is still on its way.
    "who used a nonce of it is not settled": """EXISTS (SELECT FROM qtg.movement_request_nodes n
        JOIN qtg.evm_nonce_reservation v ON v.request_node_id = n.id
        WHERE n.request_id = t.id
          AND (v.used_by = 'original' AND v.acknowledged_by IS NULL
               OR EXISTS (SELECT FROM qtg.evm_nonce_fillers f
                          WHERE f.chain = v.chain AND f.sender = v.sender AND f.nonce = v.nonce
                            AND f.filler_state IN ('ORDERED', 'PREPARED', 'SENT'))))""",
    "an alert about it is open": """EXISTS (SELECT FROM qtg.alerts a
        WHERE a.network_class = t.network_class AND a.resolved_at IS NULL
          AND position(t.id::text IN a.dedupe_key || a.details::text) > 0)""",
    "money of it is in transit": """EXISTS (SELECT FROM qtg.ledger_lines d
        WHERE d.request_id = t.id AND d.entry_kind = 'departure'
          AND d.base_units <> (SELECT coalesce(sum(l.base_units), 0) FROM qtg.ledger_lines l
                               WHERE l.request_node_id = d.request_node_id AND l.attempt_no = d.attempt_no
                                 AND l.from_account = d.to_account))""",
    "a departure of it is missing": """EXISTS (SELECT FROM qtg.movement_request_nodes n
        JOIN qtg.movement_node_attempts a ON a.request_node_id = n.id AND a.attempt_no = n.attempt_no
        WHERE n.request_id = t.id AND n.node_kind = 'action' AND n.node_state = 'COMPLETED' AND a.ledger ? 'units'
          AND NOT EXISTS (SELECT FROM qtg.ledger_lines l WHERE l.request_node_id = n.id
                          AND l.attempt_no = n.attempt_no AND l.entry_kind = 'departure'))""",
    "a capital transfer of it is open": """EXISTS (SELECT FROM qtg.capital_transfer_attempts a
        JOIN qtg.capital_transfer_requests c ON c.id = a.transfer_id
        WHERE a.movement_request_id = t.id AND c.finished_at IS NULL)""",
    "a CCIP send of it has no known end": """EXISTS (SELECT FROM qtg.movement_request_nodes n
        JOIN qtg.ccip_send_intent i ON i.request_node_id = n.id
        WHERE n.request_id = t.id AND i.send_state <> 'RESOLVED')""",
}
SETTLED = " AND ".join(f"NOT {hold}" if hold.startswith("EXISTS") else f"NOT ({hold})" for hold in HOLDS.values())

#: Rows of a movement that go before its nodes do, in this order: table -> which are its.
CHILDREN: dict[str, str] = {
    "movement_callback_outbox": "request_id = ANY (trees)",
    "movement_approvals": "request_id = ANY (trees)",
    "evm_nonce_reservation": "request_node_id = ANY (members)",
    "ccip_send_intent": "request_node_id = ANY (members)",
    "movement_node_attempts": "request_node_id = ANY (members)",
}
