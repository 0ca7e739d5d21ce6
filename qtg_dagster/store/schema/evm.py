"""Nonces: reserved before anything is signed, released only with proof that nothing was sent, filled when dead."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.nonces import FillerState, FillKind, ReservationState, Standing, UsedBy
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, serial_key, timestamp, words

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
    # Who used the nonce, once that is final and its holder did not find out itself.
    words("used_by", nullable=True),
    words("used_tx", nullable=True),
    words("acknowledged_by", nullable=True),
    # How it stood when it was last looked at on its chain: what checks and lists show without asking a chain.
    words("standing", nullable=True),
    words("standing_why", nullable=True),
    timestamp("judged_at"),
    one_of("reservation_state", ReservationState),
    one_of("used_by", UsedBy),
    one_of("standing", Standing),
    CheckConstraint(
        "reservation_state <> 'CLOSED' OR (used_by IS NOT NULL AND evidence_step_id IS NOT NULL)",
        name="closed_has_evidence",
    ),
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
    # Small, whatever was used in the past: what is not settled, and what was given back.
    Index(
        "ix_evm_nonce_reservation_open",
        "chain",
        "sender",
        "nonce",
        postgresql_where=text(
            "reservation_state IN ('RESERVED', 'FILLING') OR (used_by = 'original' AND acknowledged_by IS NULL)"
        ),
    ),
    Index(
        "ix_evm_nonce_reservation_released",
        "chain",
        "sender",
        "nonce",
        postgresql_where=text("reservation_state = 'RELEASED'"),
    ),
)

#: What was signed to use up a nonce; nothing refers to the node by a key, so that it outlives what retention deletes.
evm_nonce_fillers = Table(
    "evm_nonce_fillers",
    metadata,
    serial_key(),
    words("network_class"),
    words("chain"),
    words("sender"),
    Column("nonce", BigInteger, nullable=False),
    # Another version of the same transfer to oneself, at a higher fee.
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("request_node_id", UUID(as_uuid=False), nullable=False),
    words("fill_kind"),
    words("filler_state"),
    words("signer_key", nullable=True),
    words("raw_transaction", nullable=True),
    words("tx_hash", nullable=True),
    Column("max_fee_per_gas", Numeric(78, 0)),
    Column("max_priority_fee_per_gas", Numeric(78, 0)),
    words("ordered_by"),
    words("reason"),
    document("evidence"),
    timestamp("ordered_at", now=True),
    timestamp("prepared_at"),
    timestamp("sent_at"),
    timestamp("finished_at"),
    UniqueConstraint("chain", "sender", "nonce", "version"),
    UniqueConstraint("tx_hash"),
    one_of("fill_kind", FillKind),
    one_of("filler_state", FillerState),
    not_empty("ordered_by"),
    not_empty("reason"),
    CheckConstraint("nonce >= 0", name="nonce_not_negative"),
    # Write ahead: nothing is sent that is not stored.
    CheckConstraint(
        "filler_state NOT IN ('PREPARED', 'SENT', 'MINED') OR (raw_transaction IS NOT NULL AND tx_hash IS NOT NULL)",
        name="bytes_before_broadcast",
    ),
    Index(
        "ix_evm_nonce_fillers_open",
        "chain",
        "sender",
        "nonce",
        postgresql_where=text("filler_state IN ('ORDERED', 'PREPARED', 'SENT')"),
    ),
)
