"""What the hot path needs: a movement's row knows of failed nodes, and rows have room to be updated in place."""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'movement_requests',
        sa.Column('failed_nodes', sa.Integer(), server_default=sa.text('0'), nullable=False),
        schema='qtg',
    )
    op.execute("""UPDATE qtg.movement_requests r
        SET failed_nodes = (SELECT count(*) FROM qtg.movement_request_nodes n
                            WHERE n.request_id = r.id AND n.node_state = 'FAILED')
        WHERE finished_at IS NULL""")
    op.execute('ALTER TABLE qtg.movement_request_nodes SET (fillfactor = 60)')
    op.execute('ALTER TABLE qtg.movement_requests SET (fillfactor = 70)')
    op.execute(sa.text(GUARD.replace(':', r'\:')))


GUARD = """CREATE OR REPLACE FUNCTION qtg.guard_movement_request_nodes() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.node_state <> 'BLOCKED' THEN
            RAISE EXCEPTION 'movement_request_nodes must begin as BLOCKED, not %', NEW.node_state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.node_state IS DISTINCT FROM OLD.node_state THEN
        IF NOT (OLD.node_state || '>' || NEW.node_state) = ANY (ARRAY[
        'BLOCKED>CANCELLED',
        'BLOCKED>READY',
        'BLOCKED>SKIPPED',
        'FAILED>READY',
        'OBSERVING>COMPLETED',
        'OBSERVING>FAILED',
        'OBSERVING>SUBMITTED',
        'OBSERVING>UNKNOWN',
        'READY>CANCELLED',
        'READY>COMPLETED',
        'READY>FAILED',
        'READY>SKIPPED',
        'READY>SUBMITTING',
        'SUBMITTED>COMPLETED',
        'SUBMITTED>FAILED',
        'SUBMITTED>OBSERVING',
        'SUBMITTED>UNKNOWN',
        'SUBMITTING>COMPLETED',
        'SUBMITTING>FAILED',
        'SUBMITTING>READY',
        'SUBMITTING>SUBMITTED',
        'SUBMITTING>UNKNOWN',
        'UNKNOWN>COMPLETED',
        'UNKNOWN>FAILED',
        'UNKNOWN>SUBMITTED'
        ]) THEN
            RAISE EXCEPTION 'movement_request_nodes: % may not become %', OLD.node_state, NEW.node_state
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in domain/states.py';
        END IF;
        NEW.state_version := OLD.state_version + 1;
        IF OLD.node_state = 'FAILED' OR NEW.node_state = 'FAILED' THEN
            UPDATE qtg.movement_requests
            SET failed_nodes = failed_nodes
                + CASE WHEN NEW.node_state = 'FAILED' THEN 1 ELSE 0 END
                - CASE WHEN OLD.node_state = 'FAILED' THEN 1 ELSE 0 END
            WHERE id = NEW.request_id;
        END IF;
    END IF;
    RETURN NEW;
END
$guard$"""
