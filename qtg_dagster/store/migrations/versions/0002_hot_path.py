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
    op.execute(COUNT_FAILED)
    op.execute(COUNT_FAILED_TRIGGER)


COUNT_FAILED = """CREATE OR REPLACE FUNCTION qtg.count_failed() RETURNS trigger LANGUAGE plpgsql AS $count$
BEGIN
    UPDATE qtg.movement_requests
    SET failed_nodes = failed_nodes + CASE WHEN NEW.node_state = 'FAILED' THEN 1 ELSE -1 END
    WHERE id = NEW.request_id;
    RETURN NULL;
END
$count$"""

COUNT_FAILED_TRIGGER = """CREATE TRIGGER count_failed AFTER UPDATE OF node_state ON qtg.movement_request_nodes FOR EACH ROW WHEN ((OLD.node_state = 'FAILED') <> (NEW.node_state = 'FAILED')) EXECUTE FUNCTION qtg.count_failed()"""
