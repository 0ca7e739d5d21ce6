"""Capital transfers, and which movement each of their attempts became.

The guard on attempts keeps the promise that no transfer moves money twice, whoever writes: there is a second movement
only when no node of the first can have had an effect, and the first can never go on.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.capital_transfers import INITIAL_TRANSFER_STATE, TRANSFER_MOVES, Attention, TransferState
from qtg_dagster.store.schema.base import metadata, not_empty, one_of, timestamp, uuid_key, words
from qtg_dagster.store.schema.triggers import guard_function, guard_trigger

capital_transfer_requests = Table(
    "capital_transfer_requests",
    metadata,
    uuid_key(),
    words("network_class"),
    words("transfer_state"),
    Column("state_version", Integer, nullable=False, server_default=text("0")),
    timestamp("state_since", now=True),
    # What is to be where: `venue:key` or `account:key` of the inventory, and the asset's key there.
    words("source"),
    words("destination"),
    words("asset"),
    Column("decimals", SmallInteger, nullable=False),
    Column("base_units", Numeric(78, 0), nullable=False),
    words("reason"),
    words("requested_by"),
    timestamp("wanted_by"),
    words("idempotency_key", nullable=True),
    words("body_hash"),
    Column("attempt_no", Integer, nullable=False, server_default=text("1")),
    # Why it is shown to people, since when; null = all is well.
    words("attention_kind", nullable=True),
    words("attention", nullable=True),
    timestamp("attention_since"),
    timestamp("created_at", now=True),
    timestamp("updated_at", now=True),
    timestamp("finished_at"),
    one_of("transfer_state", TransferState),
    one_of("attention_kind", Attention),
    not_empty("network_class"),
    not_empty("requested_by"),
    not_empty("idempotency_key"),
    CheckConstraint("base_units > 0", name="moves_something"),
    CheckConstraint("source <> destination", name="goes_elsewhere"),
    CheckConstraint("attempt_no >= 1", name="attempt_counted"),
    CheckConstraint(
        "(attention_kind IS NULL) = (attention IS NULL) AND (attention_kind IS NULL) = (attention_since IS NULL)",
        name="attention_is_whole",
    ),
    CheckConstraint("transfer_state <> 'NEEDS_ATTENTION' OR attention IS NOT NULL", name="attention_is_explained"),
    CheckConstraint(
        "(transfer_state IN ('SETTLED', 'CANCELLED', 'CLOSED')) = (finished_at IS NOT NULL)", name="ends_have_a_time"
    ),
    Index("uq_capital_transfer_requests_idempotency_key", "network_class", "idempotency_key", unique=True),
    Index("ix_capital_transfer_requests_open", "created_at", "id", postgresql_where=text("finished_at IS NULL")),
    Index("ix_capital_transfer_requests_finished", "finished_at", postgresql_where=text("finished_at IS NOT NULL")),
)

# No foreign key to the movement: the trigger sees that it exists, and a movement may be deleted before its transfer.
capital_transfer_attempts = Table(
    "capital_transfer_attempts",
    metadata,
    Column("transfer_id", UUID(as_uuid=False), ForeignKey("qtg.capital_transfer_requests.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    Column("movement_request_id", UUID(as_uuid=False), nullable=False),
    words("route"),
    words("template_key"),
    timestamp("begun_at", now=True),
    PrimaryKeyConstraint("transfer_id", "attempt_no"),
    UniqueConstraint("movement_request_id"),
)

GUARD_ATTEMPTS = """CREATE OR REPLACE FUNCTION qtg.guard_capital_transfer_attempts() RETURNS trigger
LANGUAGE plpgsql AS $guard$
DECLARE
    earlier record;
BEGIN
    IF NOT EXISTS (SELECT FROM qtg.movement_requests WHERE id = NEW.movement_request_id) THEN
        RAISE EXCEPTION 'there is no movement % for a capital transfer', NEW.movement_request_id
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    PERFORM FROM qtg.capital_transfer_requests WHERE id = NEW.transfer_id AND attempt_no = NEW.attempt_no FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'attempt % is not the present one of capital transfer %', NEW.attempt_no, NEW.transfer_id
            USING ERRCODE = 'check_violation';
    END IF;
    FOR earlier IN SELECT movement_request_id AS id FROM qtg.capital_transfer_attempts
                   WHERE transfer_id = NEW.transfer_id LOOP
        PERFORM FROM qtg.movement_requests
        WHERE id = earlier.id AND request_state IN ('REJECTED', 'EXPIRED', 'CANCELLED') FOR UPDATE;
        IF NOT FOUND OR EXISTS (
            SELECT FROM qtg.movement_request_nodes n
            WHERE n.request_id = earlier.id AND n.node_kind = 'action'
              AND (n.node_state IN ('COMPLETED', 'SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN')
                   OR EXISTS (SELECT FROM qtg.movement_node_attempts a
                              WHERE a.request_node_id = n.id
                                AND coalesce(a.outcome, '') NOT IN ('NOT_SENT', 'REJECTED', 'FAILED')))
        ) THEN
            RAISE EXCEPTION 'capital transfer %: movement % may have moved money, or still may',
                NEW.transfer_id, earlier.id USING ERRCODE = 'check_violation';
        END IF;
    END LOOP;
    RETURN NEW;
END
$guard$"""
GUARD_ATTEMPTS_TRIGGER = (
    "CREATE TRIGGER guard_capital_transfer_attempts BEFORE INSERT OR UPDATE ON qtg.capital_transfer_attempts "
    "FOR EACH ROW EXECUTE FUNCTION qtg.guard_capital_transfer_attempts()"
)
STATEMENTS = (
    guard_function(
        "capital_transfer_requests",
        "transfer_state",
        TRANSFER_MOVES,
        INITIAL_TRANSFER_STATE,
        declared_in="domain/capital_transfers.py",
    ),
    guard_trigger("capital_transfer_requests"),
    GUARD_ATTEMPTS,
    GUARD_ATTEMPTS_TRIGGER,
)

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
