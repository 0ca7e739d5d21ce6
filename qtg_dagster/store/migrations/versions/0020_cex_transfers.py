"""Transfers on venues' records."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0020'
down_revision = '0019'
branch_labels = None
depends_on = None

KINDS = (
    "kind IN ('audit_chain', 'blind', 'breaker_open', 'callback_dlq', 'ccip_stranded', 'channel_failing', "
    "'core_halted', 'dead_nonce', 'disputed_transfer', 'drift', 'incomplete_record', 'manual_intervention', "
    "'manual_step', 'outbox_behind', 'transfer_attention', 'uncertain_node', 'unmatched_transfers', 'worker_unwell')"
)
GUARD = """CREATE OR REPLACE FUNCTION qtg.guard_cex_transfers() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'cex_transfers: what a venue has shown is never deleted'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF (NEW.network_class, NEW.venue_key, NEW.account, NEW.kind, NEW.row_key, NEW.first_seen_at)
        IS DISTINCT FROM
       (OLD.network_class, OLD.venue_key, OLD.account, OLD.kind, OLD.row_key, OLD.first_seen_at) THEN
        RAISE EXCEPTION 'cex_transfers: a transfer never becomes another' USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status IN ('CANCELLED', 'DONE', 'FAILED') AND NEW.status <> OLD.status
        AND NEW.settled_at IS NOT DISTINCT FROM OLD.settled_at THEN
        RAISE EXCEPTION 'cex_transfers: % is an end, and only a person may call it %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$guard$"""


def upgrade() -> None:
    op.create_table('cex_transfers',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('venue_key', sa.Text(), nullable=False),
    sa.Column('account', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('row_key', sa.Text(), nullable=False),
    sa.Column('coin', sa.Text(), nullable=False),
    sa.Column('network', sa.Text(), nullable=True),
    sa.Column('address', sa.Text(), nullable=True),
    sa.Column('memo', sa.Text(), nullable=True),
    sa.Column('client_id', sa.Text(), nullable=True),
    sa.Column('tx_id', sa.Text(), nullable=True),
    sa.Column('amount', sa.Numeric(), nullable=False),
    sa.Column('fee', sa.Numeric(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('raw_status', sa.Text(), nullable=False),
    sa.Column('status_listed', sa.Boolean(), nullable=False),
    sa.Column('confirmations', sa.Text(), nullable=True),
    sa.Column('internal', sa.Boolean(), nullable=False),
    sa.Column('occurred_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('raw', postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('first_seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('changed_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('matched_request_id', postgresql.UUID(as_uuid=False), nullable=True),
    sa.Column('matched_node_id', postgresql.UUID(as_uuid=False), nullable=True),
    sa.Column('matched_node_key', sa.Text(), nullable=True),
    sa.Column('matched_by', sa.Text(), nullable=True),
    sa.Column('matched_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('acknowledged_by', sa.Text(), nullable=True),
    sa.Column('acknowledged_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('acknowledge_reason', sa.Text(), nullable=True),
    sa.Column('disputed_status', sa.Text(), nullable=True),
    sa.Column('disputed_raw_status', sa.Text(), nullable=True),
    sa.Column('disputed_hash', sa.Text(), nullable=True),
    sa.Column('disputed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('settled_by', sa.Text(), nullable=True),
    sa.Column('settled_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("(acknowledged_by IS NULL) = (acknowledged_at IS NULL) AND (acknowledged_by IS NULL) = (acknowledge_reason IS NULL) AND acknowledged_by <> '' AND acknowledge_reason <> ''", name=op.f('ck_cex_transfers_acknowledged_as_a_whole')),
    sa.CheckConstraint("(settled_by IS NULL) = (settled_at IS NULL) AND settled_by <> ''", name=op.f('ck_cex_transfers_settled_by_somebody')),
    sa.CheckConstraint("disputed_status IN ('CANCELLED', 'DONE', 'FAILED', 'HELD', 'LOCKED', 'PENDING')", name=op.f('ck_cex_transfers_disputed_status')),
    sa.CheckConstraint("disputed_status IS NULL OR (status IN ('CANCELLED', 'DONE', 'FAILED') AND disputed_status <> status AND disputed_at IS NOT NULL)", name=op.f('ck_cex_transfers_only_an_end_is_disputed')),
    sa.CheckConstraint("kind IN ('deposit', 'withdrawal')", name=op.f('ck_cex_transfers_kind')),
    sa.CheckConstraint("matched_by IN ('client_id', 'deposit_id', 'tx_id', 'withdrawal_id')", name=op.f('ck_cex_transfers_matched_by')),
    sa.CheckConstraint("row_key <> ''", name=op.f('ck_cex_transfers_row_key_not_empty')),
    sa.CheckConstraint("status IN ('CANCELLED', 'DONE', 'FAILED', 'HELD', 'LOCKED', 'PENDING')", name=op.f('ck_cex_transfers_status')),
    sa.CheckConstraint("venue_key <> ''", name=op.f('ck_cex_transfers_venue_key_not_empty')),
    sa.CheckConstraint('(matched_node_id IS NULL) = (matched_request_id IS NULL) AND (matched_node_id IS NULL) = (matched_by IS NULL) AND (matched_node_id IS NULL) = (matched_at IS NULL)', name=op.f('ck_cex_transfers_matched_as_a_whole')),
    sa.CheckConstraint('amount >= 0 AND fee >= 0', name=op.f('ck_cex_transfers_amounts_not_negative')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cex_transfers')),
    sa.UniqueConstraint('network_class', 'venue_key', 'account', 'kind', 'row_key', name=op.f('uq_cex_transfers_network_class_venue_key_account_kind_row_key')),
    schema='qtg'
    )
    op.create_index('ix_cex_transfers_disputed', 'cex_transfers', ['network_class'], schema='qtg', postgresql_where=sa.text('disputed_status IS NOT NULL'))
    op.create_index('ix_cex_transfers_matched_node_id', 'cex_transfers', ['matched_node_id'], schema='qtg', postgresql_where=sa.text('matched_node_id IS NOT NULL'))
    op.create_index('ix_cex_transfers_occurred_at', 'cex_transfers', ['occurred_at', 'venue_key'], schema='qtg')
    op.create_index('ix_cex_transfers_open', 'cex_transfers', ['network_class', 'venue_key', 'occurred_at'], schema='qtg', postgresql_where=sa.text("status NOT IN ('CANCELLED', 'DONE', 'FAILED')"))
    op.create_index('ix_cex_transfers_unmatched', 'cex_transfers', ['network_class', 'venue_key', 'occurred_at'], schema='qtg', postgresql_where=sa.text('matched_node_id IS NULL AND acknowledged_at IS NULL'))
    op.create_table('cex_transfer_events',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('transfer_id', sa.BigInteger(), nullable=False),
    sa.Column('changes', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('before', postgresql.JSONB(), nullable=True),
    sa.Column('after', postgresql.JSONB(), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('raw', postgresql.JSONB(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=True),
    sa.Column('recorded_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint('cardinality(changes) > 0', name=op.f('ck_cex_transfer_events_tells_something')),
    sa.ForeignKeyConstraint(['transfer_id'], ['qtg.cex_transfers.id'], name=op.f('fk_cex_transfer_events_transfer_id_cex_transfers')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cex_transfer_events')),
    schema='qtg'
    )
    op.create_index('ix_cex_transfer_events_transfer_id', 'cex_transfer_events', ['transfer_id', 'id'], schema='qtg')
    op.create_table('cex_transfer_readings',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('venue_key', sa.Text(), nullable=False),
    sa.Column('account', sa.Text(), nullable=False),
    sa.Column('purpose', sa.Text(), nullable=False),
    sa.Column('first_day', sa.Date(), nullable=False),
    sa.Column('last_day', sa.Date(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=True),
    sa.Column('began_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('problem', sa.Text(), nullable=True),
    sa.Column('transfers', sa.Integer(), nullable=False),
    sa.Column('new_transfers', sa.Integer(), nullable=False),
    sa.Column('changed_transfers', sa.Integer(), nullable=False),
    sa.CheckConstraint('first_day <= last_day', name=op.f('ck_cex_transfer_readings_days_in_order')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cex_transfer_readings')),
    schema='qtg'
    )
    op.create_index('ix_cex_transfer_readings_days', 'cex_transfer_readings', ['network_class', 'venue_key', 'account', 'last_day', 'first_day'], schema='qtg')
    op.create_index('ix_cex_transfer_readings_newest', 'cex_transfer_readings', ['network_class', 'venue_key', 'account', 'purpose', 'began_at'], schema='qtg')
    op.create_table('cex_transfer_days',
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('venue_key', sa.Text(), nullable=False),
    sa.Column('account', sa.Text(), nullable=False),
    sa.Column('day', sa.Date(), nullable=False),
    sa.Column('day_state', sa.Text(), nullable=False),
    sa.Column('problem', sa.Text(), nullable=True),
    sa.Column('transfers', sa.Integer(), nullable=False),
    sa.Column('open_transfers', sa.Integer(), nullable=False),
    sa.Column('changed_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('closed_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("(day_state = 'INCOMPLETE') = (problem IS NOT NULL)", name=op.f('ck_cex_transfer_days_incomplete_is_explained')),
    sa.CheckConstraint("day_state <> 'CLOSED' OR (open_transfers = 0 AND closed_at IS NOT NULL)", name=op.f('ck_cex_transfer_days_closed_has_ended')),
    sa.CheckConstraint("day_state IN ('CLOSED', 'INCOMPLETE', 'OPEN')", name=op.f('ck_cex_transfer_days_day_state')),
    sa.PrimaryKeyConstraint('network_class', 'venue_key', 'account', 'day', name=op.f('pk_cex_transfer_days')),
    schema='qtg'
    )
    op.create_index('ix_cex_transfer_days_not_closed', 'cex_transfer_days', ['network_class', 'day'], schema='qtg', postgresql_where=sa.text("day_state <> 'CLOSED'"))
    op.execute(GUARD)
    op.execute(
        'CREATE TRIGGER guard_cex_transfers BEFORE UPDATE OR DELETE ON qtg.cex_transfers FOR EACH ROW '
        'EXECUTE FUNCTION qtg.guard_cex_transfers()'
    )
    for table in ('cex_transfer_events', 'cex_transfer_readings'):
        op.execute(
            f'CREATE TRIGGER append_only_{table} BEFORE UPDATE OR DELETE ON qtg.{table} '
            'FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()'
        )
    op.drop_constraint(op.f('ck_alerts_kind'), 'alerts', schema='qtg')
    op.create_check_constraint(op.f('ck_alerts_kind'), 'alerts', KINDS, schema='qtg')
