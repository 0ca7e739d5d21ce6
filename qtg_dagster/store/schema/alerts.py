"""Alerts, one row an episode, and the messages about them, one row a channel and word."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, text

from qtg_dagster.domain.alerts import AlertKind, Outcome, Severity, What
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, serial_key, timestamp, words

alerts = Table(
    "alerts",
    metadata,
    serial_key(),
    words("network_class"),
    words("kind"),
    words("dedupe_key"),
    words("severity"),
    words("title"),
    document("details"),
    # Raised by a part of QTG that says itself when it is over; all others are looked for in the database.
    Column("raised", Boolean, nullable=False, server_default=text("false")),
    timestamp("first_seen_at", now=True),
    timestamp("last_seen_at", now=True),
    Column("times_seen", Integer, nullable=False, server_default=text("1")),
    timestamp("absent_since"),
    timestamp("resolved_at"),
    words("resolved_by", nullable=True),
    # The highest severity that people were told, and when.
    words("told_severity", nullable=True),
    timestamp("opened_told_at"),
    timestamp("last_told_at"),
    timestamp("resolution_told_at"),
    words("acknowledged_by", nullable=True),
    timestamp("acknowledged_until"),
    words("acknowledge_reason", nullable=True),
    one_of("kind", AlertKind),
    one_of("severity", Severity),
    one_of("told_severity", Severity),
    not_empty("dedupe_key"),
    CheckConstraint("(told_severity IS NULL) = (opened_told_at IS NULL)", name="told_at_a_time"),
    CheckConstraint("resolution_told_at IS NULL OR resolved_at IS NOT NULL", name="over_before_told_so"),
    Index(
        "uq_alerts_open",
        "network_class",
        "kind",
        "dedupe_key",
        unique=True,
        postgresql_where=text("resolved_at IS NULL"),
    ),
    Index("ix_alerts_told", "network_class", "opened_told_at", postgresql_where=text("opened_told_at IS NOT NULL")),
    Index(
        "ix_alerts_resolution_untold",
        "network_class",
        postgresql_where=text("resolved_at IS NOT NULL AND told_severity IS NOT NULL AND resolution_told_at IS NULL"),
    ),
)

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    serial_key(),
    Column("alert_id", BigInteger, ForeignKey("qtg.alerts.id"), nullable=False),
    words("network_class"),
    words("channel"),
    words("what"),
    timestamp("created_at", now=True),
    # Counted before each try, so that one that was killed in between counts too.
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_attempt_at", timestamp("t").type, nullable=False, server_default=text("now()")),
    Column("outcome", words("o").type, nullable=False, server_default=text("'pending'")),
    timestamp("settled_at"),
    words("last_error", nullable=True),
    one_of("what", What),
    one_of("outcome", Outcome),
    not_empty("channel"),
    CheckConstraint("(outcome = 'pending') = (settled_at IS NULL)", name="settled_at_a_time"),
    # A channel has at most one unsent message of an alert.
    Index(
        "uq_alert_deliveries_pending",
        "alert_id",
        "channel",
        unique=True,
        postgresql_where=text("outcome = 'pending'"),
    ),
    Index(
        "ix_alert_deliveries_due",
        "network_class",
        "channel",
        "next_attempt_at",
        postgresql_where=text("outcome = 'pending'"),
    ),
    Index("ix_alert_deliveries_alert_id", "alert_id", "channel"),
)
