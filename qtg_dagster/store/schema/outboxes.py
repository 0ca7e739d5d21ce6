"""What others are to be told, written in the transaction of what it tells of."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.callbacks import CallbackStatus
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
    timestamp("next_attempt_at", now=True),
    timestamp("created_at", now=True),
    timestamp("delivered_at"),
    words("last_error", nullable=True),
    Column("event_id", UUID(as_uuid=False), nullable=False, server_default=text("gen_random_uuid()")),
    # Filled in by the database as the row is written: see ADDRESS_CALLBACK.
    words("network_class"),
    Column("sequence", Integer, nullable=False),
    words("receiver"),
    words("body"),
    # The claim: who delivers it, and the epoch that the outcome must name.
    Column("runner_id", BigInteger),
    Column("claim_epoch", BigInteger, nullable=False, server_default=text("0")),
    timestamp("claimed_at"),
    timestamp("last_attempt_at"),
    Column("last_status", Integer),
    Column("resends", Integer, nullable=False, server_default=text("0")),
    one_of("event_type", CallbackEvent),
    one_of("status", CallbackStatus),
    CheckConstraint("status = 'pending' OR runner_id IS NULL", name="settled_is_unclaimed"),
    UniqueConstraint("request_id", "sequence"),
    UniqueConstraint("event_id"),
    Index(
        "ix_movement_callback_outbox_due",
        "network_class",
        "receiver",
        "next_attempt_at",
        "id",
        postgresql_where=text("status = 'pending'"),
    ),
    Index("ix_movement_callback_outbox_dlq", "network_class", "id", postgresql_where=text("status = 'dlq'")),
    Index("ix_movement_callback_outbox_claimed", "runner_id", postgresql_where=text("runner_id IS NOT NULL")),
)

#: Whoever writes a callback holds its movement's row, so its numbers have no gap and no double. Its bytes are settled
#: here, once: what is sent again in a week, by another version, is the same.
ADDRESS_CALLBACK = """CREATE OR REPLACE FUNCTION qtg.address_callback() RETURNS trigger LANGUAGE plpgsql AS $address$
BEGIN
    SELECT network_class INTO NEW.network_class FROM qtg.movement_requests WHERE id = NEW.request_id;
    SELECT coalesce(max(sequence), 0) + 1 INTO NEW.sequence
    FROM qtg.movement_callback_outbox WHERE request_id = NEW.request_id;
    NEW.receiver := lower(coalesce(substring(NEW.callback_url FROM '^[A-Za-z]+://([^/?#]+)'), NEW.callback_url));
    NEW.body := jsonb_build_object(
        'event_id', NEW.event_id, 'event_type', NEW.event_type, 'network_class', NEW.network_class,
        'request_id', NEW.request_id, 'sequence', NEW.sequence,
        'occurred_at', to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'payload', NEW.payload)::text;
    PERFORM pg_notify('qtg_wake', 'deliver');
    RETURN NEW;
END
$address$"""
ADDRESS_CALLBACK_TRIGGER = (
    "CREATE TRIGGER address_callback BEFORE INSERT ON qtg.movement_callback_outbox "
    "FOR EACH ROW EXECUTE FUNCTION qtg.address_callback()"
)

for _statement in (ADDRESS_CALLBACK, ADDRESS_CALLBACK_TRIGGER):
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
