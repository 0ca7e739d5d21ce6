"""Who did what: written in the transaction of the deed, then promoted to a chain in which nothing can be changed."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    event,
    text,
)

from qtg_dagster.store.schema.base import SCHEMA, document, metadata, serial_key, timestamp, words

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
    # Ordered by a column that is always null in it: else the primary key looks as good to the planner, and each batch
    # walks over all that was promoted before.
    Index(
        "ix_audit_outbox_pending",
        "network_class",
        "promoted_at",
        "id",
        postgresql_where=text("promoted_at IS NULL"),
    ),
)

audit_events = Table(
    "audit_events",
    metadata,
    words("network_class"),
    # From 1, without a gap: the place in the chain.
    Column("sequence", BigInteger, nullable=False, autoincrement=False),
    Column("outbox_id", BigInteger, nullable=False),
    words("actor"),
    words("action"),
    words("subject_type"),
    words("subject_id"),
    document("details"),
    timestamp("occurred_at", now=True),
    timestamp("promoted_at", now=True),
    words("previous_hash"),
    words("row_hash"),
    PrimaryKeyConstraint("network_class", "sequence"),
    UniqueConstraint("outbox_id"),
    CheckConstraint("sequence > 0", name="counts_from_one"),
    CheckConstraint("length(previous_hash) = 64 AND length(row_hash) = 64", name="hashes_are_whole"),
    Index("ix_audit_events_subject", "subject_id"),
)

audit_verifications = Table(
    "audit_verifications",
    metadata,
    serial_key(),
    words("network_class"),
    timestamp("verified_at", now=True),
    # Whether it began with the first row; else behind what an earlier one had verified.
    Column("complete", Boolean, nullable=False),
    Column("rows_read", BigInteger, nullable=False),
    Column("head_sequence", BigInteger, nullable=False),
    words("head_hash"),
    words("problem", nullable=True),
    Index("ix_audit_verifications_newest", "network_class", "id"),
)

#: An entry can be marked as promoted, once, and deleted when every verification has had a day to compare it.
GUARD_OUTBOX = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.guard_audit_outbox() RETURNS trigger LANGUAGE plpgsql AS $guard$
DECLARE
    marked timestamptz := NEW.promoted_at;
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.promoted_at IS NULL OR OLD.promoted_at > now() - interval '1 day' THEN
            RAISE EXCEPTION 'audit_outbox: an entry is kept until a day after its promotion'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN OLD;
    END IF;
    NEW.promoted_at := OLD.promoted_at;
    IF OLD.promoted_at IS NOT NULL OR marked IS NULL OR NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'audit_outbox: an entry changes once, when it is promoted'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.promoted_at := marked;
    RETURN NEW;
END
$guard$"""
GUARD_OUTBOX_TRIGGER = (
    f"CREATE TRIGGER guard_audit_outbox BEFORE UPDATE OR DELETE ON {SCHEMA}.audit_outbox FOR EACH ROW "
    f"EXECUTE FUNCTION {SCHEMA}.guard_audit_outbox()"
)

for _statement in (GUARD_OUTBOX, GUARD_OUTBOX_TRIGGER):
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
