"""Deletion of what has settled: tombstones, nonces used up for good, and where a pass finds what may go."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None

INDEXES = (
    ('ix_movement_request_nodes_evidence', 'movement_request_nodes', 'evidence_step_id', 'evidence_step_id IS NOT NULL'),
    ('ix_evm_nonce_reservation_request_node_id', 'evm_nonce_reservation', 'request_node_id', None),
    ('ix_evm_nonce_reservation_evidence', 'evm_nonce_reservation', 'evidence_step_id', 'evidence_step_id IS NOT NULL'),
    ('ix_movement_callback_outbox_delivered', 'movement_callback_outbox', 'delivered_at', "status = 'delivered'"),
    ('ix_audit_outbox_promoted', 'audit_outbox', 'promoted_at', 'promoted_at IS NOT NULL'),
    ('ix_audit_outbox_unpromoted', 'audit_outbox', 'subject_id', 'promoted_at IS NULL'),
    ('ix_breakers_closed', 'breakers', 'closed_at', 'closed_at IS NOT NULL'),
    ('ix_alerts_resolved', 'alerts', 'resolved_at', 'resolved_at IS NOT NULL'),
    ('ix_core_deaths_noticed_at', 'core_deaths', 'noticed_at', None),
    ('ix_core_group_events_occurred_at', 'core_group_events', 'occurred_at', None),
    ('ix_runners_started_at', 'runners', 'started_at', None),
    ('ix_runners_dagster_run_id', 'runners', 'dagster_run_id', None),
    ('ix_cycles_started_at', 'cycles', 'started_at', None),
)
#: The books outlive the movements' rows.
FREED = (
    'fk_ledger_lines_request_id_movement_requests',
    'fk_ledger_lines_request_node_id_movement_request_nodes',
    'fk_ledger_lines_step_id_movement_node_steps',
)


def upgrade() -> None:
    op.create_table(
        'movement_tombstones',
        sa.Column('request_id', postgresql.UUID(as_uuid=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('idempotency_key', sa.Text(), nullable=True),
        sa.Column('body_hash', sa.Text(), nullable=False),
        sa.Column('template_key', sa.Text(), nullable=False),
        sa.Column('template_version', sa.Integer(), nullable=False),
        sa.Column('compiled_plan_hash', sa.Text(), nullable=False),
        sa.Column('approval_digest', sa.Text(), nullable=False),
        sa.Column('request_state', sa.Text(), nullable=False),
        sa.Column('requested_by', sa.Text(), nullable=False),
        sa.Column('approved_by', sa.ARRAY(sa.Text()), nullable=False),
        sa.Column('rejected_by', sa.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            'nodes', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('approved_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('finished_at', sa.DateTime(timezone=True), nullable=False),
        sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('deleted_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint(
            "request_state IN ('CANCELLED', 'COMPLETED', 'EXPIRED', 'REJECTED')",
            name=op.f('ck_movement_tombstones_request_state'),
        ),
        sa.PrimaryKeyConstraint('request_id', name=op.f('pk_movement_tombstones')),
        schema='qtg',
    )
    op.create_index(
        'uq_movement_tombstones_idempotency_key',
        'movement_tombstones',
        ['network_class', 'idempotency_key'],
        unique=True,
        schema='qtg',
    )
    op.create_table(
        'evm_nonce_floors',
        sa.Column('chain', sa.Text(), nullable=False),
        sa.Column('sender', sa.Text(), nullable=False),
        sa.Column('nonce', sa.BigInteger(), nullable=False),
        sa.CheckConstraint('nonce >= 0', name=op.f('ck_evm_nonce_floors_nonce_not_negative')),
        sa.PrimaryKeyConstraint('chain', 'sender', name=op.f('pk_evm_nonce_floors')),
        schema='qtg',
    )
    for name, table, column, where in INDEXES:
        op.create_index(name, table, [column], schema='qtg', postgresql_where=sa.text(where) if where else None)
    op.drop_index('ix_movement_requests_finished', 'movement_requests', schema='qtg')
    op.create_index(
        'ix_movement_requests_finished',
        'movement_requests',
        ['finished_at', 'id'],
        schema='qtg',
        postgresql_where=sa.text('finished_at IS NOT NULL'),
    )
    for name in FREED:
        op.drop_constraint(name, 'ledger_lines', schema='qtg', type_='foreignkey')
    for statement in (REFUSE_REWRITE, REFUSE_SPENT_KEY, ON_INSERT, APPEND_ONLY):
        op.get_bind().exec_driver_sql(statement.replace('%', '%%'))
    # The functions that delete belong to the release: each migration run declares them anew, with the roles' rights.


REFUSE_REWRITE = """CREATE OR REPLACE FUNCTION qtg.refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('qtg.retention', true) = 'on' AND TG_TABLE_NAME IN
        ('movement_node_steps', 'movement_approvals', 'core_deaths', 'core_group_events') THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '%.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$guard$"""

REFUSE_SPENT_KEY = """CREATE OR REPLACE FUNCTION qtg.refuse_spent_key() RETURNS trigger LANGUAGE plpgsql AS $spent$
BEGIN
    IF EXISTS (SELECT FROM qtg.movement_tombstones
               WHERE network_class = NEW.network_class AND idempotency_key = NEW.idempotency_key) THEN
        RAISE EXCEPTION 'idempotency_key % belongs to a movement whose rows were deleted', NEW.idempotency_key
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NULL;
END
$spent$"""

ON_INSERT = """CREATE TRIGGER refuse_spent_key AFTER INSERT ON qtg.movement_requests
FOR EACH ROW WHEN (NEW.idempotency_key IS NOT NULL) EXECUTE FUNCTION qtg.refuse_spent_key()"""

APPEND_ONLY = """CREATE TRIGGER append_only_movement_tombstones BEFORE UPDATE OR DELETE ON qtg.movement_tombstones FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()"""
