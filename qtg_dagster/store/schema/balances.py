"""Balances as venues and chains reported them, append-only."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Numeric, Table, text

from qtg_dagster.store.schema.base import metadata, serial_key, timestamp, words

balance_snapshots = Table(
    "balance_snapshots",
    metadata,
    serial_key(),
    words("network_class"),
    words("venue_key"),
    words("account"),
    words("wallet"),
    words("asset"),
    Column("free", Numeric, nullable=False),
    Column("locked", Numeric, nullable=False, server_default=text("0")),
    timestamp("source_time"),
    Column("source_height", BigInteger),
    Column("request_started_at", timestamp("x", now=True).type, nullable=False),
    Column("request_ended_at", timestamp("x", now=True).type, nullable=False),
    Column("complete", Boolean, nullable=False),
    timestamp("recorded_at", now=True),
    Index("ix_balance_snapshots_latest", "venue_key", "account", "wallet", "asset", text("recorded_at DESC")),
    Index("ix_balance_snapshots_recorded_at", "recorded_at"),
)
