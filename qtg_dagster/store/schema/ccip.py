"""CCIP sends: written in the transaction of their intent, so that one whose end nobody records is found."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Table,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.ccip_sends import INITIAL_SEND_STATE, SEND_MOVES, Resolution, SendState
from qtg_dagster.store.schema.base import metadata, not_empty, one_of, serial_key, timestamp, words
from qtg_dagster.store.schema.triggers import guard_function, guard_trigger

ccip_send_intent = Table(
    "ccip_send_intent",
    metadata,
    serial_key(),
    words("network_class"),
    Column("request_node_id", UUID(as_uuid=False), ForeignKey("qtg.movement_request_nodes.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    words("send_state"),
    Column("state_version", Integer, nullable=False, server_default=text("0")),
    words("source_chain"),
    # A chain selector is an unsigned 64-bit number, which bigint does not hold.
    Column("destination_selector", Numeric(20, 0), nullable=False),
    words("router"),
    words("sender"),
    Column("nonce", BigInteger),
    words("tx_hash", nullable=True),
    words("message_id", nullable=True),
    words("attention", nullable=True),
    words("resolution", nullable=True),
    Column("evidence_step_id", BigInteger, ForeignKey("qtg.movement_node_steps.id")),
    timestamp("intended_at", now=True),
    timestamp("sent_at"),
    timestamp("stranded_at"),
    timestamp("resolved_at"),
    timestamp("updated_at", now=True),
    UniqueConstraint("request_node_id", "attempt_no"),
    one_of("send_state", SendState),
    one_of("resolution", Resolution),
    not_empty("network_class"),
    not_empty("source_chain"),
    not_empty("router"),
    not_empty("sender"),
    CheckConstraint("destination_selector BETWEEN 0 AND 18446744073709551615", name="selector_fits"),
    CheckConstraint("nonce >= 0", name="nonce_not_negative"),
    CheckConstraint(
        "(send_state = 'RESOLVED') = (resolution IS NOT NULL AND evidence_step_id IS NOT NULL)", name="end_has_evidence"
    ),
    CheckConstraint("send_state <> 'SENT' OR message_id IS NOT NULL", name="sent_has_message"),
    CheckConstraint("(send_state = 'STRANDED') = (attention IS NOT NULL)", name="stranded_is_explained"),
    Index("ix_ccip_send_intent_open", "id", postgresql_where=text("send_state <> 'RESOLVED'")),
    Index("ix_ccip_send_intent_evidence", "evidence_step_id", postgresql_where=text("evidence_step_id IS NOT NULL")),
    Index("ix_ccip_send_intent_message_id", "message_id", postgresql_where=text("message_id IS NOT NULL")),
)

STATEMENTS = (
    guard_function(
        "ccip_send_intent", "send_state", SEND_MOVES, INITIAL_SEND_STATE, declared_in="domain/ccip_sends.py"
    ),
    guard_trigger("ccip_send_intent"),
)

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
