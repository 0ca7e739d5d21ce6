"""Alerts, and who was told of them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None


def upgrade() -> None:
    at = sa.DateTime(timezone=True)
    op.create_table(
        'alerts',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('kind', sa.Text(), nullable=False),
        sa.Column('dedupe_key', sa.Text(), nullable=False),
        sa.Column('severity', sa.Text(), nullable=False),
        sa.Column('title', sa.Text(), nullable=False),
        sa.Column('details', postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column('raised', sa.Boolean(), server_default=sa.text('false'), nullable=False),
        sa.Column('first_seen_at', at, server_default=sa.text('now()'), nullable=False),
        sa.Column('last_seen_at', at, server_default=sa.text('now()'), nullable=False),
        sa.Column('times_seen', sa.Integer(), server_default=sa.text('1'), nullable=False),
        sa.Column('absent_since', at, nullable=True),
        sa.Column('resolved_at', at, nullable=True),
        sa.Column('resolved_by', sa.Text(), nullable=True),
        sa.Column('told_severity', sa.Text(), nullable=True),
        sa.Column('opened_told_at', at, nullable=True),
        sa.Column('last_told_at', at, nullable=True),
        sa.Column('resolution_told_at', at, nullable=True),
        sa.Column('acknowledged_by', sa.Text(), nullable=True),
        sa.Column('acknowledged_until', at, nullable=True),
        sa.Column('acknowledge_reason', sa.Text(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('audit_chain', 'blind', 'breaker_open', 'callback_dlq', 'ccip_stranded', 'channel_failing', "
            "'core_halted', 'dead_nonce', 'drift', 'manual_intervention', 'manual_step', 'outbox_behind', "
            "'transfer_attention', 'uncertain_node', 'worker_unwell')",
            name=op.f('ck_alerts_kind'),
        ),
        sa.CheckConstraint("severity IN ('critical', 'info', 'warning')", name=op.f('ck_alerts_severity')),
        sa.CheckConstraint("told_severity IN ('critical', 'info', 'warning')", name=op.f('ck_alerts_told_severity')),
        sa.CheckConstraint("dedupe_key <> ''", name=op.f('ck_alerts_dedupe_key_not_empty')),
        sa.CheckConstraint(
            '(told_severity IS NULL) = (opened_told_at IS NULL)', name=op.f('ck_alerts_told_at_a_time')
        ),
        sa.CheckConstraint(
            'resolution_told_at IS NULL OR resolved_at IS NOT NULL', name=op.f('ck_alerts_over_before_told_so')
        ),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_alerts')),
        schema='qtg',
    )
    op.create_index(
        'uq_alerts_open',
        'alerts',
        ['network_class', 'kind', 'dedupe_key'],
        unique=True,
        schema='qtg',
        postgresql_where=sa.text('resolved_at IS NULL'),
    )
    op.create_index(
        'ix_alerts_told',
        'alerts',
        ['network_class', 'opened_told_at'],
        schema='qtg',
        postgresql_where=sa.text('opened_told_at IS NOT NULL'),
    )
    op.create_index(
        'ix_alerts_resolution_untold',
        'alerts',
        ['network_class'],
        schema='qtg',
        postgresql_where=sa.text(
            'resolved_at IS NOT NULL AND told_severity IS NOT NULL AND resolution_told_at IS NULL'
        ),
    )
    op.create_table(
        'alert_deliveries',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('alert_id', sa.BigInteger(), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('channel', sa.Text(), nullable=False),
        sa.Column('what', sa.Text(), nullable=False),
        sa.Column('created_at', at, server_default=sa.text('now()'), nullable=False),
        sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
        sa.Column('next_attempt_at', at, server_default=sa.text('now()'), nullable=False),
        sa.Column('outcome', sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column('settled_at', at, nullable=True),
        sa.Column('last_error', sa.Text(), nullable=True),
        sa.CheckConstraint(
            "what IN ('escalated', 'opened', 'reminded', 'resolved')", name=op.f('ck_alert_deliveries_what')
        ),
        sa.CheckConstraint(
            "outcome IN ('dropped', 'failed', 'pending', 'sent', 'superseded')",
            name=op.f('ck_alert_deliveries_outcome'),
        ),
        sa.CheckConstraint("channel <> ''", name=op.f('ck_alert_deliveries_channel_not_empty')),
        sa.CheckConstraint(
            "(outcome = 'pending') = (settled_at IS NULL)", name=op.f('ck_alert_deliveries_settled_at_a_time')
        ),
        sa.ForeignKeyConstraint(['alert_id'], ['qtg.alerts.id'], name=op.f('fk_alert_deliveries_alert_id_alerts')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_deliveries')),
        schema='qtg',
    )
    op.create_index(
        'uq_alert_deliveries_pending',
        'alert_deliveries',
        ['alert_id', 'channel'],
        unique=True,
        schema='qtg',
        postgresql_where=sa.text("outcome = 'pending'"),
    )
    op.create_index(
        'ix_alert_deliveries_due',
        'alert_deliveries',
        ['network_class', 'channel', 'next_attempt_at'],
        schema='qtg',
        postgresql_where=sa.text("outcome = 'pending'"),
    )
    op.create_index('ix_alert_deliveries_alert_id', 'alert_deliveries', ['alert_id', 'channel'], schema='qtg')
