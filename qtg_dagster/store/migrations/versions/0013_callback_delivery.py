"""Delivery of callbacks: claims, a number within the movement, the receiver, and the bytes that are sent."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None

TABLE = 'movement_callback_outbox'


def upgrade() -> None:
    for column in (
        sa.Column('event_id', postgresql.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=True),
        sa.Column('sequence', sa.Integer(), nullable=True),
        sa.Column('receiver', sa.Text(), nullable=True),
        sa.Column('body', sa.Text(), nullable=True),
        sa.Column('runner_id', sa.BigInteger(), nullable=True),
        sa.Column('claim_epoch', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
        sa.Column('claimed_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('last_attempt_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('last_status', sa.Integer(), nullable=True),
        sa.Column('resends', sa.Integer(), server_default=sa.text('0'), nullable=False),
    ):
        op.add_column(TABLE, column, schema='qtg')
    op.get_bind().exec_driver_sql(ADDRESS_STANDING)
    for name in ('network_class', 'sequence', 'receiver', 'body'):
        op.alter_column(TABLE, name, nullable=False, schema='qtg')
    op.alter_column(TABLE, 'next_attempt_at', server_default=sa.text('now()'), nullable=False, schema='qtg')
    op.create_check_constraint(
        op.f('ck_movement_callback_outbox_settled_is_unclaimed'), TABLE, "status = 'pending' OR runner_id IS NULL", schema='qtg'
    )
    op.create_unique_constraint(op.f('uq_movement_callback_outbox_request_id_sequence'), TABLE, ['request_id', 'sequence'], schema='qtg')
    op.create_unique_constraint(op.f('uq_movement_callback_outbox_event_id'), TABLE, ['event_id'], schema='qtg')
    op.drop_index('ix_movement_callback_outbox_pending', TABLE, schema='qtg')
    op.drop_index('ix_movement_callback_outbox_request_id', TABLE, schema='qtg')
    op.create_index(
        'ix_movement_callback_outbox_due', TABLE, ['network_class', 'receiver', 'next_attempt_at', 'id'],
        schema='qtg', postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        'ix_movement_callback_outbox_dlq', TABLE, ['network_class', 'id'],
        schema='qtg', postgresql_where=sa.text("status = 'dlq'"),
    )
    op.create_index(
        'ix_movement_callback_outbox_claimed', TABLE, ['runner_id'],
        schema='qtg', postgresql_where=sa.text('runner_id IS NOT NULL'),
    )
    op.get_bind().exec_driver_sql(ADDRESS_CALLBACK.replace('%', '%%'))
    op.execute(
        'CREATE TRIGGER address_callback BEFORE INSERT ON qtg.movement_callback_outbox '
        'FOR EACH ROW EXECUTE FUNCTION qtg.address_callback()'
    )


# Callbacks that were written before there was a courier.
ADDRESS_STANDING = r"""WITH numbered AS (
    SELECT o.id, r.network_class, row_number() OVER (PARTITION BY o.request_id ORDER BY o.id) AS sequence
    FROM qtg.movement_callback_outbox o JOIN qtg.movement_requests r ON r.id = o.request_id
)
UPDATE qtg.movement_callback_outbox o
SET network_class = n.network_class, sequence = n.sequence, next_attempt_at = coalesce(o.next_attempt_at, now()),
    receiver = lower(coalesce(substring(o.callback_url FROM '^[A-Za-z]+://([^/?#]+)'), o.callback_url)),
    body = jsonb_build_object(
        'event_id', o.event_id, 'event_type', o.event_type, 'network_class', n.network_class,
        'request_id', o.request_id, 'sequence', n.sequence,
        'occurred_at', to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'payload', o.payload)::text
FROM numbered n
WHERE n.id = o.id"""

ADDRESS_CALLBACK = r"""CREATE OR REPLACE FUNCTION qtg.address_callback() RETURNS trigger LANGUAGE plpgsql AS $address$
BEGIN
    SELECT network_class INTO NEW.network_class FROM qtg.movement_requests WHERE id = NEW.request_id;
    SELECT coalesce(max(sequence), 0) + 1 INTO NEW.sequence
    FROM qtg.movement_callback_outbox WHERE request_id = NEW.request_id;
    NEW.receiver := lower(coalesce(substring(NEW.callback_url FROM '^[A-Za-z]+://([^/?#]+)'), NEW.callback_url));
    NEW.body := jsonb_build_object(
        'event_id', NEW.event_id, 'event_type', NEW.event_type, 'network_class', NEW.network_class,
        'request_id', NEW.request_id, 'sequence', NEW.sequence,
        'occurred_at', to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'payload', NEW.payload)::text;
    PERFORM pg_notify('qtg_wake', 'deliver');
    RETURN NEW;
END
$address$"""
