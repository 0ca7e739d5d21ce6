"""What outlives the rows that are deleted: a movement's tombstone, and the nonces that are used up for good."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.states import FINAL_REQUEST_STATES
from qtg_dagster.store.schema.alerts import alerts
from qtg_dagster.store.schema.audit import audit_outbox
from qtg_dagster.store.schema.base import document, metadata, one_of, timestamp, words
from qtg_dagster.store.schema.breakers import breakers
from qtg_dagster.store.schema.core_group import core_deaths, core_group_events
from qtg_dagster.store.schema.evm import evm_nonce_reservation
from qtg_dagster.store.schema.movements import movement_request_nodes
from qtg_dagster.store.schema.outboxes import movement_callback_outbox
from qtg_dagster.store.schema.registries import cycles, runners
from qtg_dagster.store.schema.triggers import append_only_trigger

movement_tombstones = Table(
    "movement_tombstones",
    metadata,
    Column("request_id", UUID(as_uuid=False), primary_key=True),
    words("network_class"),
    words("idempotency_key", nullable=True),
    words("body_hash"),
    words("template_key"),
    Column("template_version", Integer, nullable=False),
    words("compiled_plan_hash"),
    words("approval_digest"),
    words("request_state"),
    words("requested_by"),
    Column("approved_by", ARRAY(Text), nullable=False),
    Column("rejected_by", ARRAY(Text), nullable=False),
    # Node id -> its key and state: the ledger's lines name their nodes by id.
    document("nodes"),
    timestamp("created_at", now=True),
    timestamp("approved_at"),
    Column("finished_at", timestamp("t", now=True).type, nullable=False),
    timestamp("expires_at"),
    timestamp("deleted_at", now=True),
    one_of("request_state", FINAL_REQUEST_STATES),
    Index("uq_movement_tombstones_idempotency_key", "network_class", "idempotency_key", unique=True),
)

#: The highest nonce of each sender of which a deleted row proved that the chain has executed it.
evm_nonce_floors = Table(
    "evm_nonce_floors",
    metadata,
    words("chain"),
    words("sender"),
    Column("nonce", BigInteger, nullable=False),
    PrimaryKeyConstraint("chain", "sender"),
    CheckConstraint("nonce >= 0", name="nonce_not_negative"),
)

# Where a pass finds the oldest that may go, and where the deletion of a row finds those that refer to it.
Index(
    "ix_movement_request_nodes_evidence",
    movement_request_nodes.c.evidence_step_id,
    postgresql_where=text("evidence_step_id IS NOT NULL"),
)
Index("ix_evm_nonce_reservation_request_node_id", evm_nonce_reservation.c.request_node_id)
Index(
    "ix_evm_nonce_reservation_evidence",
    evm_nonce_reservation.c.evidence_step_id,
    postgresql_where=text("evidence_step_id IS NOT NULL"),
)
Index(
    "ix_movement_callback_outbox_delivered",
    movement_callback_outbox.c.delivered_at,
    postgresql_where=text("status = 'delivered'"),
)
Index(
    "ix_audit_outbox_promoted",
    audit_outbox.c.promoted_at,
    postgresql_where=text("promoted_at IS NOT NULL"),
)
Index("ix_audit_outbox_unpromoted", audit_outbox.c.subject_id, postgresql_where=text("promoted_at IS NULL"))
Index("ix_breakers_closed", breakers.c.closed_at, postgresql_where=text("closed_at IS NOT NULL"))
Index("ix_alerts_resolved", alerts.c.resolved_at, postgresql_where=text("resolved_at IS NOT NULL"))
Index("ix_core_deaths_noticed_at", core_deaths.c.noticed_at)
Index("ix_core_group_events_occurred_at", core_group_events.c.occurred_at)
Index("ix_runners_started_at", runners.c.started_at)
Index("ix_runners_dagster_run_id", runners.c.dagster_run_id)
Index("ix_cycles_started_at", cycles.c.started_at)

#: Insertion waits for a deletion that is under way and then sees its tombstone, whatever was looked up before.
REFUSE_SPENT_KEY = """CREATE OR REPLACE FUNCTION qtg.refuse_spent_key() RETURNS trigger LANGUAGE plpgsql AS $spent$
BEGIN
    IF EXISTS (SELECT FROM qtg.movement_tombstones
               WHERE network_class = NEW.network_class AND idempotency_key = NEW.idempotency_key) THEN
        RAISE EXCEPTION 'idempotency_key % belongs to a movement whose rows were deleted', NEW.idempotency_key
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NULL;
END
$spent$"""
ON_INSERT = """CREATE TRIGGER refuse_spent_key AFTER INSERT ON qtg.movement_requests
FOR EACH ROW WHEN (NEW.idempotency_key IS NOT NULL) EXECUTE FUNCTION qtg.refuse_spent_key()"""

STATEMENTS = (REFUSE_SPENT_KEY, ON_INSERT, append_only_trigger("movement_tombstones"))

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
