"""Alembic's environment: one connection, given by `qtg_dagster.store.migrate`."""

from __future__ import annotations

from typing import Any

from alembic import context

from qtg_dagster.store.schema import SCHEMA, metadata


def _ours(name: str | None, kind: str, parents: Any) -> bool:  # noqa: ARG001 - alembic's signature
    return kind != "schema" or name == SCHEMA


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    include_schemas=True,
    include_name=_ours,
    version_table_schema=SCHEMA,
    compare_type=True,
    compare_server_default=False,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
