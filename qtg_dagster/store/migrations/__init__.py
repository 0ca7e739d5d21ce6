"""Alembic's scripts; run through `qtg_dagster.store.migrate`."""
