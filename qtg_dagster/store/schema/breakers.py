"""Breakers: what may not start at the moment, who said so, and how fast it is let go again."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, text
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.store.schema.base import metadata, not_empty, serial_key, timestamp, words

#: Rows are history: a breaker that is opened again is another row.
breakers = Table(
    "breakers",
    metadata,
    serial_key(),
    words("network_class"),
    words("scope"),
    timestamp("opened_at", now=True),
    words("opened_by"),
    words("reason"),
    # From here on nodes are let through, so many a minute, until it is closed.
    timestamp("released_at"),
    words("released_by", nullable=True),
    Column("release_per_minute", Integer),
    Column("let_through", BigInteger, nullable=False, server_default=text("0")),
    # When the next node may be let through: each that is lets the next one wait its turn.
    timestamp("next_start_at"),
    timestamp("closed_at"),
    words("closed_by", nullable=True),
    words("close_reason", nullable=True),
    not_empty("scope"),
    not_empty("opened_by"),
    not_empty("reason"),
    CheckConstraint("release_per_minute > 0", name="release_per_minute_positive"),
    CheckConstraint("(released_at IS NULL) = (release_per_minute IS NULL)", name="released_at_a_rate"),
    CheckConstraint("(released_at IS NULL) = (next_start_at IS NULL)", name="released_in_turns"),
    CheckConstraint("(closed_at IS NULL) = (closed_by IS NULL)", name="closed_by_someone"),
    Index(
        "uq_breakers_open",
        "network_class",
        "scope",
        unique=True,
        postgresql_where=text("closed_at IS NULL"),
    ),
    Index("ix_breakers_scope", "network_class", "scope", "opened_at"),
)

#: Whom a release has let through lately: claims and intents ask for it.
breaker_starts = Table(
    "breaker_starts",
    metadata,
    serial_key(),
    Column("breaker_id", BigInteger, ForeignKey("qtg.breakers.id"), nullable=False),
    Column("request_node_id", UUID(as_uuid=False), nullable=False),
    Column("started_at", timestamp("t").type, nullable=False, server_default=text("clock_timestamp()")),
    Index("ix_breaker_starts_recent", "breaker_id", "started_at"),
    Index("uq_breaker_starts_node", "breaker_id", "request_node_id", unique=True),
)
