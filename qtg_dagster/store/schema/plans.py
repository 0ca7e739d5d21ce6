"""Templates and their immutable versions: nodes and edges."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, UniqueConstraint

from qtg_dagster.domain.plans import NodeKind
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, serial_key, timestamp, words

movement_templates = Table(
    "movement_templates",
    metadata,
    serial_key(),
    words("template_key"),
    timestamp("created_at", now=True),
    UniqueConstraint("template_key"),
    not_empty("template_key"),
)

movement_plan_versions = Table(
    "movement_plan_versions",
    metadata,
    serial_key(),
    Column("template_id", BigInteger, ForeignKey("qtg.movement_templates.id"), nullable=False),
    Column("version", Integer, nullable=False),
    words("title"),
    words("description"),
    words("graph_hash"),
    document("parameters", default="[]"),
    document("risk_controls"),
    document("approval"),
    timestamp("created_at", now=True),
    timestamp("retired_at"),
    UniqueConstraint("template_id", "version"),
)

movement_plan_nodes = Table(
    "movement_plan_nodes",
    metadata,
    serial_key(),
    Column("plan_version_id", BigInteger, ForeignKey("qtg.movement_plan_versions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    words("node_key"),
    words("node_kind"),
    words("action_type"),
    words("executor_key", nullable=True),
    words("signer_role", nullable=True),
    document("config"),
    document("timeout_policy"),
    UniqueConstraint("plan_version_id", "node_key"),
    one_of("node_kind", NodeKind),
)

movement_plan_edges = Table(
    "movement_plan_edges",
    metadata,
    serial_key(),
    Column("plan_version_id", BigInteger, ForeignKey("qtg.movement_plan_versions.id"), nullable=False),
    words("from_node"),
    words("to_node"),
    UniqueConstraint("plan_version_id", "from_node", "to_node"),
)
