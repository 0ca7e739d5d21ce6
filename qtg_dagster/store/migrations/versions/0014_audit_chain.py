"""The hash chain of audit events, what its verifications found, and the guard of the outbox."""

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_constraint('pk_audit_events', 'audit_events', schema='qtg', type_='primary')
    op.drop_column('audit_events', 'id', schema='qtg')
    # Nothing has written events yet: a row without its place in the chain has none, and stops this migration.
    op.add_column('audit_events', sa.Column('sequence', sa.BigInteger(), nullable=False), schema='qtg')
    for column in ('previous_hash', 'row_hash'):
        op.alter_column('audit_events', column, nullable=False, schema='qtg')
    op.create_primary_key(op.f('pk_audit_events'), 'audit_events', ['network_class', 'sequence'], schema='qtg')
    op.create_check_constraint(op.f('ck_audit_events_counts_from_one'), 'audit_events', 'sequence > 0', schema='qtg')
    op.create_check_constraint(
        op.f('ck_audit_events_hashes_are_whole'),
        'audit_events',
        'length(previous_hash) = 64 AND length(row_hash) = 64',
        schema='qtg',
    )
    op.drop_index('ix_audit_events_subject', 'audit_events', schema='qtg')
    op.create_index('ix_audit_events_subject', 'audit_events', ['subject_id'], schema='qtg')
    op.drop_index('ix_audit_outbox_pending', 'audit_outbox', schema='qtg')
    op.create_index(
        'ix_audit_outbox_pending',
        'audit_outbox',
        ['network_class', 'promoted_at', 'id'],
        schema='qtg',
        postgresql_where=sa.text('promoted_at IS NULL'),
    )
    op.create_table(
        'audit_verifications',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('verified_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('complete', sa.Boolean(), nullable=False),
        sa.Column('rows_read', sa.BigInteger(), nullable=False),
        sa.Column('head_sequence', sa.BigInteger(), nullable=False),
        sa.Column('head_hash', sa.Text(), nullable=False),
        sa.Column('problem', sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_audit_verifications')),
        schema='qtg',
    )
    op.create_index(
        'ix_audit_verifications_newest', 'audit_verifications', ['network_class', 'id'], schema='qtg'
    )
    op.execute(
        'CREATE TRIGGER append_only_audit_verifications BEFORE UPDATE OR DELETE ON qtg.audit_verifications '
        'FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()'
    )
    op.get_bind().exec_driver_sql(GUARD_OUTBOX)
    op.execute(
        'CREATE TRIGGER guard_audit_outbox BEFORE UPDATE OR DELETE ON qtg.audit_outbox FOR EACH ROW '
        'EXECUTE FUNCTION qtg.guard_audit_outbox()'
    )


GUARD_OUTBOX = r"""CREATE OR REPLACE FUNCTION qtg.guard_audit_outbox() RETURNS trigger LANGUAGE plpgsql AS $guard$
DECLARE
    marked timestamptz := NEW.promoted_at;
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.promoted_at IS NULL OR OLD.promoted_at > now() - interval '1 day' THEN
            RAISE EXCEPTION 'audit_outbox: an entry is kept until a day after its promotion'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN OLD;
    END IF;
    NEW.promoted_at := OLD.promoted_at;
    IF OLD.promoted_at IS NOT NULL OR marked IS NULL OR NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'audit_outbox: an entry changes once, when it is promoted'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.promoted_at := marked;
    RETURN NEW;
END
$guard$"""
