"""Who is there: runners, executors, signers, workers, and what a signer has signed."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.contract import HealthState
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, serial_key, timestamp, words

runners = Table(
    "runners",
    metadata,
    serial_key(),
    words("kind"),
    words("network_class"),
    Column("slot", Integer, nullable=False, server_default=text("0")),
    words("host"),
    Column("pid", Integer, nullable=False),
    words("dagster_run_id", nullable=True),
    timestamp("started_at", now=True),
    timestamp("ended_at"),
    words("end_reason", nullable=True),
    # An advisory lock's second key is 32 bits wide.
    CheckConstraint("id <= 2147483647", name="id_fits_lock"),
)


def _health_columns() -> list[Column[object]]:
    return [
        words("network_class"),
        Column("health_state", words("h").type, nullable=False, server_default=text("'unknown'")),
        words("health_detail", nullable=True),
        Column("latency_ms", Float),
        timestamp("checked_at"),
        timestamp("changed_at"),
        Column("orphan", Boolean, nullable=False, server_default=text("false")),
    ]


executor_registry = Table(
    "executor_registry",
    metadata,
    words("executor_key"),
    *_health_columns(),
    PrimaryKeyConstraint("network_class", "executor_key"),
    one_of("health_state", HealthState),
)

signer_registry = Table(
    "signer_registry",
    metadata,
    words("signer_key"),
    *_health_columns(),
    words("expected_signer_address", nullable=True),
    words("observed_signer_address", nullable=True),
    PrimaryKeyConstraint("network_class", "signer_key"),
    one_of("health_state", HealthState),
)

worker_heartbeats = Table(
    "worker_heartbeats",
    metadata,
    words("network_class"),
    words("worker"),
    timestamp("last_attempt_at"),
    timestamp("last_success_at"),
    words("last_outcome", nullable=True),
    Column("last_duration_ms", Float),
    Column("last_items", Integer),
    Column("consecutive_errors", Integer, nullable=False, server_default=text("0")),
    words("last_error", nullable=True),
    PrimaryKeyConstraint("network_class", "worker"),
)

signer_journal = Table(
    "signer_journal",
    metadata,
    serial_key(),
    words("chain"),
    words("sender"),
    Column("nonce", BigInteger, nullable=False),
    Column("request_node_id", UUID(as_uuid=False), nullable=False),
    words("role"),
    words("effect_hash"),
    # A nonce signs one effect, and beside it at most the transfer of nothing to oneself that uses it up.
    Column("purpose", words("p").type, nullable=False, server_default=text("'effect'")),
    timestamp("signed_at", now=True),
    UniqueConstraint("chain", "sender", "nonce", "purpose"),
    UniqueConstraint("request_node_id", "role"),
    not_empty("effect_hash"),
    one_of("purpose", ["effect", "fill"]),
)

cycles = Table(
    "cycles",
    metadata,
    words("worker"),
    words("network_class"),
    words("cycle_key"),
    timestamp("started_at", now=True),
    document("result"),
    PrimaryKeyConstraint("network_class", "worker", "cycle_key"),
)

signer_spends = Table(
    "signer_spends",
    metadata,
    serial_key(),
    words("chain"),
    words("sender"),
    Column("nonce", BigInteger, nullable=False),
    words("asset"),
    Column("units", Numeric(78, 0), nullable=False),
    timestamp("spent_at", now=True),
    UniqueConstraint("chain", "sender", "nonce"),
    CheckConstraint("units >= 0", name="not_negative"),
    Index("ix_signer_spends_by_day", "sender", "asset", "spent_at"),
)
