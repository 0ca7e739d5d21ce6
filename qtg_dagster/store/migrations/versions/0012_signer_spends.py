"""What a signer has signed for in a day: its own count, whatever others have counted."""

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'signer_spends',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('chain', sa.Text(), nullable=False),
        sa.Column('sender', sa.Text(), nullable=False),
        sa.Column('nonce', sa.BigInteger(), nullable=False),
        sa.Column('asset', sa.Text(), nullable=False),
        sa.Column('units', sa.Numeric(precision=78, scale=0), nullable=False),
        sa.Column('spent_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint('units >= 0', name=op.f('ck_signer_spends_not_negative')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_signer_spends')),
        sa.UniqueConstraint('chain', 'sender', 'nonce', name=op.f('uq_signer_spends_chain_sender_nonce')),
        schema='qtg',
    )
    op.create_index('ix_signer_spends_by_day', 'signer_spends', ['sender', 'asset', 'spent_at'], schema='qtg')
    op.execute(
        'CREATE TRIGGER append_only_signer_spends BEFORE UPDATE OR DELETE ON qtg.signer_spends '
        'FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()'
    )
    op.get_bind().exec_driver_sql(GRANT_ROLES.replace('%', '%%'))


GRANT_ROLES = r"""CREATE OR REPLACE FUNCTION qtg.grant_roles() RETURNS text[] LANGUAGE plpgsql AS $grants$
DECLARE
    granted text[] := '{}';
    thing text;
BEGIN
    IF to_regrole('qtg_app') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA qtg FROM qtg_app;
        GRANT USAGE ON SCHEMA qtg TO qtg_app;
        GRANT SELECT ON ALL TABLES IN SCHEMA qtg TO qtg_app;
        GRANT INSERT ON qtg.movement_requests, qtg.movement_request_nodes, qtg.movement_node_attempts, qtg.evm_nonce_reservation, qtg.breakers, qtg.breaker_starts, qtg.velocity_limits, qtg.velocity_spends, qtg.runners, qtg.cycles, qtg.worker_heartbeats, qtg.executor_registry, qtg.signer_registry, qtg.movement_templates, qtg.movement_plan_versions, qtg.movement_node_steps, qtg.movement_approvals, qtg.ledger_lines, qtg.audit_outbox, qtg.core_deaths, qtg.movement_plan_nodes, qtg.movement_plan_edges, qtg.balance_snapshots, qtg.core_group_events, qtg.movement_callback_outbox TO qtg_app;
        GRANT UPDATE ON qtg.movement_requests, qtg.movement_request_nodes, qtg.movement_node_attempts, qtg.evm_nonce_reservation, qtg.breakers, qtg.breaker_starts, qtg.velocity_limits, qtg.velocity_spends, qtg.runners, qtg.cycles, qtg.worker_heartbeats, qtg.executor_registry, qtg.signer_registry, qtg.movement_templates, qtg.movement_plan_versions TO qtg_app;
        GRANT DELETE ON qtg.breaker_starts, qtg.velocity_limits TO qtg_app;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA qtg TO qtg_app;
        granted := granted || 'qtg_app'::text;
    END IF;
    IF to_regrole('qtg_signer') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA qtg FROM qtg_signer;
        GRANT USAGE ON SCHEMA qtg TO qtg_signer;
        GRANT SELECT ON qtg.signer_journal, qtg.signer_spends TO qtg_signer;
        GRANT INSERT ON qtg.signer_journal, qtg.signer_spends TO qtg_signer;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA qtg TO qtg_signer;
        granted := granted || 'qtg_signer'::text;
    END IF;
    IF to_regrole('qtg_sender') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA qtg FROM qtg_sender;
        GRANT USAGE ON SCHEMA qtg TO qtg_sender;
        GRANT SELECT ON qtg.movement_callback_outbox, qtg.audit_outbox, qtg.audit_events, qtg.movement_requests TO qtg_sender;
        GRANT INSERT ON qtg.audit_events TO qtg_sender;
        GRANT UPDATE ON qtg.movement_callback_outbox TO qtg_sender;
        GRANT UPDATE (promoted_at) ON qtg.audit_outbox TO qtg_sender;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA qtg TO qtg_sender;
        granted := granted || 'qtg_sender'::text;
    END IF;
    IF to_regrole('qtg_readonly') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA qtg FROM qtg_readonly;
        GRANT USAGE ON SCHEMA qtg TO qtg_readonly;
        GRANT SELECT ON ALL TABLES IN SCHEMA qtg TO qtg_readonly;
        granted := granted || 'qtg_readonly'::text;
    END IF;
    IF to_regrole('qtg_retention') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA qtg FROM qtg_retention;
        GRANT USAGE ON SCHEMA qtg TO qtg_retention;
        granted := granted || 'qtg_retention'::text;
    END IF;
    IF to_regrole('qtg_dagster') IS NOT NULL AND to_regnamespace('dagster') IS NOT NULL THEN
        GRANT USAGE, CREATE ON SCHEMA dagster TO qtg_dagster;
        -- What an earlier version made as the schema's owner; what the role makes itself is its own.
        FOR thing IN SELECT format('TABLE dagster.%I', tablename) FROM pg_tables
                     WHERE schemaname = 'dagster' AND tableowner = current_user
                     UNION ALL SELECT format('SEQUENCE dagster.%I', sequencename) FROM pg_sequences
                     WHERE schemaname = 'dagster' AND sequenceowner = current_user LOOP
            EXECUTE format('GRANT ALL ON %s TO qtg_dagster', thing);
        END LOOP;
        granted := granted || 'qtg_dagster'::text;
    END IF;
    RETURN granted;
END
$grants$"""
