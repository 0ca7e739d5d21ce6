"""Deaths of core workers, and what the group did about them."""

from __future__ import annotations

from sqlalchemy import DDL, BigInteger, Column, Index, Integer, Table, UniqueConstraint, event, text

from qtg_dagster.domain.core_group import CoreEvent, DeathCause
from qtg_dagster.store.schema.base import metadata, not_empty, one_of, serial_key, timestamp, words
from qtg_dagster.store.schema.registries import runners
from qtg_dagster.store.schema.triggers import append_only_trigger

core_deaths = Table(
    "core_deaths",
    metadata,
    serial_key(),
    words("network_class"),
    words("worker"),
    words("incident"),
    words("cause"),
    Column("runner_id", BigInteger),
    words("dagster_run_id", nullable=True),
    timestamp("began_at"),
    timestamp("noticed_at", now=True),
    words("noticed_by"),
    words("detail"),
    UniqueConstraint("incident"),
    one_of("cause", DeathCause),
    not_empty("incident"),
)

core_group_events = Table(
    "core_group_events",
    metadata,
    serial_key(),
    words("network_class"),
    words("event"),
    words("worker", nullable=True),
    Column("falls", Integer, nullable=False, server_default=text("0")),
    timestamp("occurred_at", now=True),
    timestamp("restart_at"),
    words("actor", nullable=True),
    words("reason"),
    one_of("event", CoreEvent),
    Index("ix_core_group_events_network_class", "network_class", "id"),
)

#: Runners that are alive or ended badly: few, however many have finished.
Index(
    "ix_runners_unfinished",
    runners.c.network_class,
    runners.c.id,
    postgresql_where=text("end_reason IS DISTINCT FROM 'finished'"),
)

CORE_APPEND_ONLY = ("core_deaths", "core_group_events")

for _table in CORE_APPEND_ONLY:
    _ddl: DDL = DDL(append_only_trigger(_table))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
