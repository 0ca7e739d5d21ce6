"""Views: who is alive, as PostgreSQL sees it, and plans as the documents that they were published as."""

from __future__ import annotations

from sqlalchemy import DDL, event

from qtg_dagster.store.runners import RUNNER_LOCK_CLASS
from qtg_dagster.store.schema.base import metadata

LIVE_RUNNERS = f"""CREATE VIEW qtg.live_runners AS
SELECT objid::bigint AS runner_id
FROM pg_locks
WHERE locktype = 'advisory' AND classid = {RUNNER_LOCK_CLASS} AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""  # noqa: S608 - our own constant

PLAN_DOCUMENTS = """CREATE VIEW qtg.plan_documents AS
SELECT v.id AS plan_version_id, jsonb_build_object(
    'template_key', t.template_key, 'title', v.title, 'description', v.description,
    'parameters', v.parameters, 'risk_controls', v.risk_controls, 'approval', v.approval,
    'nodes', (SELECT jsonb_agg(jsonb_build_object(
                  'node_key', p.node_key, 'node_kind', p.node_kind, 'action_type', p.action_type,
                  'executor_key', p.executor_key, 'signer_role', p.signer_role,
                  'config', p.config, 'timeout_policy', p.timeout_policy) ORDER BY p.position)
              FROM qtg.movement_plan_nodes p WHERE p.plan_version_id = v.id),
    'edges', coalesce((SELECT jsonb_agg(jsonb_build_object(
                  'from_node', e.from_node, 'to_node', e.to_node) ORDER BY e.id)
              FROM qtg.movement_plan_edges e WHERE e.plan_version_id = v.id), '[]'::jsonb)
)::text AS plan
FROM qtg.movement_plan_versions v
JOIN qtg.movement_templates t ON t.id = v.template_id"""

for _view in (LIVE_RUNNERS, PLAN_DOCUMENTS):
    _ddl: DDL = DDL(_view)  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
