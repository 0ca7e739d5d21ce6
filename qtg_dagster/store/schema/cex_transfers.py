"""Transfers on venues' records: each row as it is now, what changed when, what was read, how far a day is known."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.cex_transfers import FINAL_STATUSES, MatchedBy, TransferKind, TransferStatus
from qtg_dagster.domain.record_days import DayState
from qtg_dagster.store.schema.base import SCHEMA, document, metadata, not_empty, one_of, serial_key, timestamp, words
from qtg_dagster.store.schema.triggers import append_only_trigger

_FINAL = ", ".join(f"'{status}'" for status in sorted(FINAL_STATUSES))

cex_transfers = Table(
    "cex_transfers",
    metadata,
    serial_key(),
    words("network_class"),
    words("venue_key"),
    words("account"),
    words("kind"),
    words("row_key"),  # the venue's id of it, or what its adapter tells rows by where the venue gives none
    words("coin"),
    words("network", nullable=True),
    words("address", nullable=True),
    words("memo", nullable=True),
    words("client_id", nullable=True),
    words("tx_id", nullable=True),
    Column("amount", Numeric, nullable=False),
    Column("fee", Numeric, nullable=False),
    words("status"),
    words("raw_status"),
    Column("status_listed", Boolean, nullable=False),
    words("confirmations", nullable=True),
    Column("internal", Boolean, nullable=False),
    Column("occurred_at", timestamp("t", now=True).type, nullable=False),  # by the time that the venue filters on
    document("raw"),
    words("content_hash"),
    timestamp("first_seen_at", now=True),
    timestamp("changed_at", now=True),
    # The node that made it move. No foreign key: this record outlives movements.
    Column("matched_request_id", UUID(as_uuid=False)),
    Column("matched_node_id", UUID(as_uuid=False)),
    words("matched_node_key", nullable=True),
    words("matched_by", nullable=True),
    timestamp("matched_at"),
    # Money that moved without us, and who says why that is in order.
    words("acknowledged_by", nullable=True),
    timestamp("acknowledged_at"),
    words("acknowledge_reason", nullable=True),
    # Another state than the final one above, as the venue showed it later; a person settles which stands.
    words("disputed_status", nullable=True),
    words("disputed_raw_status", nullable=True),
    words("disputed_hash", nullable=True),
    timestamp("disputed_at"),
    words("settled_by", nullable=True),
    timestamp("settled_at"),
    UniqueConstraint("network_class", "venue_key", "account", "kind", "row_key"),
    one_of("kind", TransferKind),
    one_of("status", TransferStatus),
    one_of("disputed_status", TransferStatus),
    one_of("matched_by", MatchedBy),
    not_empty("venue_key"),
    not_empty("row_key"),
    CheckConstraint("amount >= 0 AND fee >= 0", name="amounts_not_negative"),
    CheckConstraint(
        "(matched_node_id IS NULL) = (matched_request_id IS NULL) AND (matched_node_id IS NULL) = (matched_by IS NULL) "
        "AND (matched_node_id IS NULL) = (matched_at IS NULL)",
        name="matched_as_a_whole",
    ),
    CheckConstraint(
        "(acknowledged_by IS NULL) = (acknowledged_at IS NULL) "
        "AND (acknowledged_by IS NULL) = (acknowledge_reason IS NULL) AND acknowledged_by <> '' "
        "AND acknowledge_reason <> ''",
        name="acknowledged_as_a_whole",
    ),
    CheckConstraint(
        f"disputed_status IS NULL OR (status IN ({_FINAL}) AND disputed_status <> status AND disputed_at IS NOT NULL)",
        name="only_an_end_is_disputed",
    ),
    CheckConstraint("(settled_by IS NULL) = (settled_at IS NULL) AND settled_by <> ''", name="settled_by_somebody"),
    # By time first: an index that begins as the identity does is taken for it while there are no statistics.
    Index("ix_cex_transfers_occurred_at", "occurred_at", "venue_key"),
    Index(
        "ix_cex_transfers_open",
        "network_class",
        "venue_key",
        "occurred_at",
        postgresql_where=text(f"status NOT IN ({_FINAL})"),
    ),
    Index(
        "ix_cex_transfers_unmatched",
        "network_class",
        "venue_key",
        "occurred_at",
        postgresql_where=text("matched_node_id IS NULL AND acknowledged_at IS NULL"),
    ),
    Index("ix_cex_transfers_matched_node_id", "matched_node_id", postgresql_where=text("matched_node_id IS NOT NULL")),
    Index("ix_cex_transfers_disputed", "network_class", postgresql_where=text("disputed_status IS NOT NULL")),
)

cex_transfer_events = Table(
    "cex_transfer_events",
    metadata,
    serial_key(),
    Column("transfer_id", BigInteger, ForeignKey("qtg.cex_transfers.id"), nullable=False),
    Column("changes", ARRAY(Text), nullable=False),
    document("before", nullable=True, default=None),
    document("after", default=None),
    words("content_hash"),
    document("raw", default=None),
    words("actor", nullable=True),
    timestamp("recorded_at", now=True),
    CheckConstraint("cardinality(changes) > 0", name="tells_something"),
    Index("ix_cex_transfer_events_transfer_id", "transfer_id", "id"),
)

#: One row for each stretch of days that was asked for: it says for all rows in it when they were seen again.
cex_transfer_readings = Table(
    "cex_transfer_readings",
    metadata,
    serial_key(),
    words("network_class"),
    words("venue_key"),
    words("account"),
    words("purpose"),
    Column("first_day", Date, nullable=False),
    Column("last_day", Date, nullable=False),
    words("run_id", nullable=True),
    Column("began_at", timestamp("t").type, nullable=False),
    timestamp("ended_at", now=True),
    words("problem", nullable=True),
    Column("transfers", Integer, nullable=False),
    Column("new_transfers", Integer, nullable=False),
    Column("changed_transfers", Integer, nullable=False),
    CheckConstraint("first_day <= last_day", name="days_in_order"),
    Index("ix_cex_transfer_readings_newest", "network_class", "venue_key", "account", "purpose", "began_at"),
    Index("ix_cex_transfer_readings_days", "network_class", "venue_key", "account", "last_day", "first_day"),
)

#: Written when something about a day changes, and by no other reading.
cex_transfer_days = Table(
    "cex_transfer_days",
    metadata,
    words("network_class"),
    words("venue_key"),
    words("account"),
    Column("day", Date, nullable=False),
    words("day_state"),
    words("problem", nullable=True),
    Column("transfers", Integer, nullable=False),
    Column("open_transfers", Integer, nullable=False),
    timestamp("changed_at", now=True),
    timestamp("closed_at"),
    PrimaryKeyConstraint("network_class", "venue_key", "account", "day"),
    one_of("day_state", DayState),
    CheckConstraint("(day_state = 'INCOMPLETE') = (problem IS NOT NULL)", name="incomplete_is_explained"),
    CheckConstraint("day_state <> 'CLOSED' OR (open_transfers = 0 AND closed_at IS NOT NULL)", name="closed_has_ended"),
    Index("ix_cex_transfer_days_not_closed", "network_class", "day", postgresql_where=text("day_state <> 'CLOSED'")),
)

GUARD = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.guard_cex_transfers() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'cex_transfers: what a venue has shown is never deleted'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF (NEW.network_class, NEW.venue_key, NEW.account, NEW.kind, NEW.row_key, NEW.first_seen_at)
        IS DISTINCT FROM
       (OLD.network_class, OLD.venue_key, OLD.account, OLD.kind, OLD.row_key, OLD.first_seen_at) THEN
        RAISE EXCEPTION 'cex_transfers: a transfer never becomes another' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status IN ({_FINAL}) AND NEW.status <> OLD.status
        AND NEW.settled_at IS NOT DISTINCT FROM OLD.settled_at THEN
        RAISE EXCEPTION 'cex_transfers: % is an end, and only a person may call it %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$guard$"""
GUARD_TRIGGER = (
    f"CREATE TRIGGER guard_cex_transfers BEFORE UPDATE OR DELETE ON {SCHEMA}.cex_transfers "
    f"FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.guard_cex_transfers()"
)
APPEND_ONLY = ("cex_transfer_events", "cex_transfer_readings")
STATEMENTS = (GUARD, GUARD_TRIGGER, *(append_only_trigger(table) for table in APPEND_ONLY))

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
