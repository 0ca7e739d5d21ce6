"""Attempts and the append-only journal of steps: the facts from which states are decided."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.journal import AttemptOutcome, StepKind
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, serial_key, timestamp, words

movement_node_attempts = Table(
    "movement_node_attempts",
    metadata,
    serial_key(),
    Column("request_node_id", UUID(as_uuid=False), ForeignKey("qtg.movement_request_nodes.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    words("idempotency_key"),
    document("prepared", default=None),
    # What it takes out of a holding and what may follow, for the ledger; or why it is not in there.
    document("ledger", nullable=True, default=None),
    words("payload_hash"),
    words("signer_key", nullable=True),
    words("signer_address", nullable=True),
    words("outcome", nullable=True),
    Column("outcome_step_id", BigInteger),
    timestamp("intended_at", now=True),
    timestamp("outcome_at"),
    UniqueConstraint("request_node_id", "attempt_no"),
    UniqueConstraint("idempotency_key"),
    not_empty("idempotency_key"),
    one_of("outcome", AttemptOutcome),
    # What was signed and never used its nonce is among these.
    Index(
        "ix_movement_node_attempts_never_left",
        "request_node_id",
        "attempt_no",
        postgresql_where=text("outcome IN ('NOT_SENT', 'REJECTED')"),
    ),
)

movement_node_steps = Table(
    "movement_node_steps",
    metadata,
    serial_key(),
    Column("request_node_id", UUID(as_uuid=False), ForeignKey("qtg.movement_request_nodes.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    words("step_kind"),
    words("from_state", nullable=True),
    words("to_state", nullable=True),
    document("facts"),
    words("actor", nullable=True),
    Column("runner_id", BigInteger),
    Column("claim_epoch", BigInteger),
    timestamp("recorded_at", now=True),
    one_of("step_kind", StepKind),
    Index("ix_movement_node_steps_request_node_id", "request_node_id", "id"),
)
