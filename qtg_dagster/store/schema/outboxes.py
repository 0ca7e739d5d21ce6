"""What others are to be told, written in the transaction of what it tells of."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.journal import CallbackEvent
from qtg_dagster.store.schema.base import document, metadata, one_of, serial_key, timestamp, words

movement_callback_outbox = Table(
    "movement_callback_outbox",
    metadata,
    serial_key(),
    Column("request_id", UUID(as_uuid=False), ForeignKey("qtg.movement_requests.id"), nullable=False),
    words("event_type"),
    document("payload"),
    words("callback_url"),
    Column("callback_timestamp", BigInteger, nullable=False, server_default=text("extract(epoch from now())::bigint")),
    Column("callback_nonce", UUID(as_uuid=False), nullable=False, server_default=text("gen_random_uuid()")),
    Column("status", words("status").type, nullable=False, server_default=text("'pending'")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    timestamp("next_attempt_at"),
    timestamp("created_at", now=True),
    timestamp("delivered_at"),
    words("last_error", nullable=True),
    one_of("event_type", CallbackEvent),
    one_of("status", ["pending", "delivered", "dlq"]),
    Index("ix_movement_callback_outbox_pending", "created_at", postgresql_where=text("status = 'pending'")),
    Index("ix_movement_callback_outbox_request_id", "request_id"),
)

audit_outbox = Table(
    "audit_outbox",
    metadata,
    serial_key(),
    words("network_class"),
    words("actor"),
    words("action"),
    words("subject_type"),
    words("subject_id"),
    document("details"),
    timestamp("occurred_at", now=True),
    timestamp("promoted_at"),
    Index("ix_audit_outbox_pending", "id", postgresql_where=text("promoted_at IS NULL")),
)

audit_events = Table(
    "audit_events",
    metadata,
    serial_key(),
    Column("outbox_id", BigInteger, nullable=False),
    words("network_class"),
    words("actor"),
    words("action"),
    words("subject_type"),
    words("subject_id"),
    document("details"),
    timestamp("occurred_at", now=True),
    timestamp("promoted_at", now=True),
    words("previous_hash", nullable=True),
    words("row_hash", nullable=True),
    UniqueConstraint("outbox_id"),
    Index("ix_audit_events_subject", "subject_type", "subject_id"),
)
