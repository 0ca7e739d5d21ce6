"""Database roles, and the function that gives them their rights."""

from alembic import op

revision = '0011'
down_revision = '0010'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(CREATE_ROLES.replace('%', '%%'))
    op.get_bind().exec_driver_sql(GRANT_ROLES.replace('%', '%%'))


CREATE_ROLES = r"""DO $roles$
BEGIN
    BEGIN CREATE ROLE qtg_app LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
    BEGIN CREATE ROLE qtg_signer LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
    BEGIN CREATE ROLE qtg_sender LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
    BEGIN CREATE ROLE qtg_readonly LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
    BEGIN CREATE ROLE qtg_retention LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
    BEGIN CREATE ROLE qtg_dagster LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'QTG''s database roles were not made: %', SQLERRM;
END
$roles$"""

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
        GRANT SELECT ON qtg.signer_journal TO qtg_signer;
        GRANT INSERT ON qtg.signer_journal TO qtg_signer;
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
