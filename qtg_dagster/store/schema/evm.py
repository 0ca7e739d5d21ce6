"""Nonces: reserved before anything is signed, released only with proof that nothing was sent."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, text
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.store.schema.base import metadata, one_of, serial_key, timestamp, words

evm_nonce_reservation = Table(
    "evm_nonce_reservation",
    metadata,
    serial_key(),
    words("chain"),
    words("sender"),
    Column("nonce", BigInteger, nullable=False),
    Column("request_node_id", UUID(as_uuid=False), ForeignKey("qtg.movement_request_nodes.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    words("reservation_state"),
    words("payload_hash", nullable=True),
    Column("evidence_step_id", BigInteger, ForeignKey("qtg.movement_node_steps.id")),
    timestamp("reserved_at", now=True),
    timestamp("bound_at"),
    timestamp("released_at"),
    one_of("reservation_state", ["RESERVED", "BOUND", "RELEASED"]),
    CheckConstraint("reservation_state <> 'BOUND' OR payload_hash IS NOT NULL", name="bound_has_payload"),
    CheckConstraint("nonce >= 0", name="nonce_not_negative"),
    # A released nonce may be taken again; a live one never twice.
    Index(
        "uq_evm_nonce_reservation_live",
        "chain",
        "sender",
        "nonce",
        unique=True,
        postgresql_where=text("reservation_state <> 'RELEASED'"),
    ),
    Index(
        "uq_evm_nonce_reservation_attempt",
        "request_node_id",
        "attempt_no",
        unique=True,
        postgresql_where=text("reservation_state <> 'RELEASED'"),
    ),
    Index("ix_evm_nonce_reservation_reserved", "reserved_at", postgresql_where=text("reservation_state = 'RESERVED'")),
)
