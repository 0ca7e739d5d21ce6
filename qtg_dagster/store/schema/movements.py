"""Movement requests, their nodes, and the approvals they got."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.plans import NodeKind
from qtg_dagster.domain.states import NodeState, RequestState
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, timestamp, uuid_key, words

movement_requests = Table(
    "movement_requests",
    metadata,
    uuid_key(),
    words("network_class"),
    Column("plan_version_id", BigInteger, ForeignKey("qtg.movement_plan_versions.id"), nullable=False),
    words("request_state"),
    Column("state_version", Integer, nullable=False, server_default=text("0")),
    words("idempotency_key", nullable=True),
    words("body_hash"),
    document("intent"),
    document("input_params"),
    document("resolved_bindings"),
    words("compiled_plan_hash"),
    words("approval_digest"),
    Column("current_frontier", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    # Kept by the guard on nodes: who starts a node needs only this row, and its lock, to know of a sibling's failure.
    Column("failed_nodes", Integer, nullable=False, server_default=text("0")),
    words("requested_by"),
    words("reason"),
    words("callback_url", nullable=True),
    timestamp("expires_at"),
    timestamp("created_at", now=True),
    timestamp("updated_at", now=True),
    timestamp("approved_at"),
    timestamp("finished_at"),
    one_of("request_state", RequestState),
    not_empty("requested_by"),
    CheckConstraint("idempotency_key <> ''", name="idempotency_key_not_empty"),
    Index("uq_movement_requests_idempotency_key", "network_class", "idempotency_key", unique=True),
    Index("ix_movement_requests_open", "created_at", postgresql_where=text("finished_at IS NULL")),
    Index("ix_movement_requests_expiring", "expires_at", postgresql_where=text("request_state = 'PENDING_APPROVAL'")),
    Index("ix_movement_requests_finished", "finished_at", "id", postgresql_where=text("finished_at IS NOT NULL")),
    postgresql_with={"fillfactor": 70},
)

movement_request_nodes = Table(
    "movement_request_nodes",
    metadata,
    uuid_key(),
    Column("request_id", UUID(as_uuid=False), ForeignKey("qtg.movement_requests.id"), nullable=False),
    Column("plan_node_id", BigInteger, ForeignKey("qtg.movement_plan_nodes.id"), nullable=False),
    words("node_key"),
    words("node_kind"),
    words("executor_key", nullable=True),
    words("node_state"),
    Column("state_version", Integer, nullable=False, server_default=text("0")),
    Column("attempt_no", Integer, nullable=False, server_default=text("0")),
    # The claim: who works on it, and the epoch that every write-back must name.
    Column("runner_id", BigInteger),
    Column("claim_epoch", BigInteger, nullable=False, server_default=text("0")),
    timestamp("claimed_at"),
    words("serialization_key", nullable=True),
    words("in_flight_key", nullable=True),
    # What a breaker must stand on to hold it (`domain.breakers`).
    Column("scopes", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    # What is known of it so far.
    document("provider_refs"),
    document("artifacts"),
    words("error_code", nullable=True),
    words("error_message", nullable=True),
    words("facts_digest", nullable=True),
    Column("evidence_step_id", BigInteger, ForeignKey("qtg.movement_node_steps.id", use_alter=True)),
    # When it is looked at next: dispatch, observe and recover each read it in their own states.
    timestamp("next_look_at"),
    Column("looks", Integer, nullable=False, server_default=text("0")),
    timestamp("request_created_at", now=True),
    timestamp("started_at"),
    timestamp("submitted_at"),
    timestamp("completed_at"),
    timestamp("updated_at", now=True),
    UniqueConstraint("request_id", "node_key"),
    one_of("node_state", NodeState),
    one_of("node_kind", NodeKind),
    CheckConstraint(
        "node_state NOT IN ('COMPLETED', 'FAILED') OR evidence_step_id IS NOT NULL", name="terminal_has_evidence"
    ),
    Index(
        "ix_movement_request_nodes_ready",
        "request_created_at",
        postgresql_where=text("node_state = 'READY' AND node_kind <> 'manual'"),
    ),
    Index(
        "ix_movement_request_nodes_observing",
        "request_created_at",
        "next_look_at",
        postgresql_where=text("node_state IN ('SUBMITTED', 'OBSERVING')"),
    ),
    Index(
        "ix_movement_request_nodes_uncertain",
        "updated_at",
        postgresql_where=text("node_state IN ('UNKNOWN', 'SUBMITTING')"),
    ),
    Index(
        "uq_movement_request_nodes_in_flight_key",
        "in_flight_key",
        unique=True,
        postgresql_where=text("in_flight_key IS NOT NULL"),
    ),
    # Room on each page for the next version of its rows: a node is updated five times or so in its life.
    postgresql_with={"fillfactor": 60},
)

movement_approvals = Table(
    "movement_approvals",
    metadata,
    uuid_key(),
    Column("request_id", UUID(as_uuid=False), ForeignKey("qtg.movement_requests.id"), nullable=False),
    words("decision"),
    words("actor"),
    words("compiled_plan_hash"),
    words("approval_digest"),
    words("reason"),
    timestamp("decided_at", now=True),
    one_of("decision", ["approved", "rejected"]),
    not_empty("actor"),
    # Once each: whoever approved one of several may still reject.
    UniqueConstraint("request_id", "decision", "actor"),
)
