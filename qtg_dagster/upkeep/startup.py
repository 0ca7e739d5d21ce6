"""What must hold before movements are taken: every action of every template has someone to do it."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.engine.parts import Engine

_ACTIONS = text("""
    SELECT t.template_key, v.version, n.node_key, n.executor_key
    FROM qtg.movement_plan_nodes n
    JOIN qtg.movement_plan_versions v ON v.id = n.plan_version_id
    JOIN qtg.movement_templates t ON t.id = v.template_id
    WHERE n.executor_key IS NOT NULL AND NOT n.executor_key = ANY (CAST(:known AS text[]))
      AND (v.retired_at IS NULL OR EXISTS (
            SELECT 1 FROM qtg.movement_requests r
            WHERE r.plan_version_id = v.id AND r.finished_at IS NULL AND r.network_class = :network_class))
    ORDER BY t.template_key, v.version, n.position
""")


async def check_templates(engine: Engine) -> list[str]:
    """One line for each template action that no registered executor does; empty when all is well.

    Covers versions in use and retired ones that an open movement still needs.
    """
    bound = {
        "known": [key for key, _ in engine.executors.items()],
        "network_class": engine.settings.network_class,
    }
    async with engine.database.transaction() as transaction:
        rows = (await transaction.execute(_ACTIONS, bound)).all()
    return [
        f"template {row.template_key} version {row.version}: node {row.node_key} needs {row.executor_key}, "
        "which is not registered; register it, or retire the version"
        for row in rows
    ]
