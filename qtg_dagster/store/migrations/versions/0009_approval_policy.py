"""Whose word a template's movements need before they start."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'movement_plan_versions',
        sa.Column(
            'approval',
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        schema='qtg',
    )
    op.execute("""CREATE OR REPLACE VIEW qtg.plan_documents AS
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
JOIN qtg.movement_templates t ON t.id = v.template_id""")
