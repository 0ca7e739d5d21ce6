"""Filling of dead nonces."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0019'
down_revision = '0018'
branch_labels = None
depends_on = None

RESERVATION = 'evm_nonce_reservation'
STATES = "reservation_state IN ('BOUND', 'CLOSED', 'FILLING', 'RELEASED', 'RESERVED')"
USED_BY = "used_by IN ('another', 'filler', 'original')"
STANDINGS = "standing IN ('DEAD', 'FREE', 'HELD', 'UNCERTAIN', 'USED')"
CLOSED = "reservation_state <> 'CLOSED' OR (used_by IS NOT NULL AND evidence_step_id IS NOT NULL)"
OPEN = "reservation_state IN ('RESERVED', 'FILLING') OR (used_by = 'original' AND acknowledged_by IS NULL)"
WRITTEN_AHEAD = (
    "filler_state NOT IN ('PREPARED', 'SENT', 'MINED') OR (raw_transaction IS NOT NULL AND tx_hash IS NOT NULL)"
)


def upgrade() -> None:
    for column in ('used_by', 'used_tx', 'acknowledged_by', 'standing', 'standing_why'):
        op.add_column(RESERVATION, sa.Column(column, sa.Text(), nullable=True), schema='qtg')
    op.add_column(RESERVATION, sa.Column('judged_at', sa.DateTime(timezone=True), nullable=True), schema='qtg')
    op.drop_constraint(op.f('ck_evm_nonce_reservation_reservation_state'), RESERVATION, schema='qtg')
    for name, condition in (
        ('reservation_state', STATES), ('used_by', USED_BY), ('standing', STANDINGS), ('closed_has_evidence', CLOSED)
    ):
        op.create_check_constraint(op.f(f'ck_evm_nonce_reservation_{name}'), RESERVATION, condition, schema='qtg')

    for name, condition in (('open', OPEN), ('released', "reservation_state = 'RELEASED'")):
        op.create_index(
            f'ix_evm_nonce_reservation_{name}',
            RESERVATION,
            ['chain', 'sender', 'nonce'],
            schema='qtg',
            postgresql_where=sa.text(condition),
        )
    op.create_index(
        'ix_movement_node_attempts_never_left',
        'movement_node_attempts',
        ['request_node_id', 'attempt_no'],
        schema='qtg',
        postgresql_where=sa.text("outcome IN ('NOT_SENT', 'REJECTED')"),
    )

    op.add_column(
        'signer_journal',
        sa.Column('purpose', sa.Text(), server_default=sa.text("'effect'"), nullable=False),
        schema='qtg',
    )
    op.drop_constraint(op.f('uq_signer_journal_chain_sender_nonce'), 'signer_journal', schema='qtg')
    op.create_unique_constraint(
        op.f('uq_signer_journal_chain_sender_nonce_purpose'),
        'signer_journal',
        ['chain', 'sender', 'nonce', 'purpose'],
        schema='qtg',
    )
    op.create_check_constraint(
        op.f('ck_signer_journal_purpose'), 'signer_journal', "purpose IN ('effect', 'fill')", schema='qtg'
    )

    op.create_table(
        'evm_nonce_fillers',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('chain', sa.Text(), nullable=False),
        sa.Column('sender', sa.Text(), nullable=False),
        sa.Column('nonce', sa.BigInteger(), nullable=False),
        sa.Column('version', sa.Integer(), server_default=sa.text('1'), nullable=False),
        sa.Column('request_node_id', postgresql.UUID(as_uuid=False), nullable=False),
        sa.Column('fill_kind', sa.Text(), nullable=False),
        sa.Column('filler_state', sa.Text(), nullable=False),
        sa.Column('signer_key', sa.Text(), nullable=True),
        sa.Column('raw_transaction', sa.Text(), nullable=True),
        sa.Column('tx_hash', sa.Text(), nullable=True),
        sa.Column('max_fee_per_gas', sa.Numeric(precision=78, scale=0), nullable=True),
        sa.Column('max_priority_fee_per_gas', sa.Numeric(precision=78, scale=0), nullable=True),
        sa.Column('ordered_by', sa.Text(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('evidence', postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column('ordered_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('prepared_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('sent_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("fill_kind IN ('cancel', 'dead')", name=op.f('ck_evm_nonce_fillers_fill_kind')),
        sa.CheckConstraint(
            "filler_state IN ('MINED', 'ORDERED', 'PREPARED', 'SENT', 'SUPERSEDED')",
            name=op.f('ck_evm_nonce_fillers_filler_state'),
        ),
        sa.CheckConstraint("ordered_by <> ''", name=op.f('ck_evm_nonce_fillers_ordered_by_not_empty')),
        sa.CheckConstraint("reason <> ''", name=op.f('ck_evm_nonce_fillers_reason_not_empty')),
        sa.CheckConstraint('nonce >= 0', name=op.f('ck_evm_nonce_fillers_nonce_not_negative')),
        sa.CheckConstraint(WRITTEN_AHEAD, name=op.f('ck_evm_nonce_fillers_bytes_before_broadcast')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_evm_nonce_fillers')),
        sa.UniqueConstraint(
            'chain', 'sender', 'nonce', 'version', name=op.f('uq_evm_nonce_fillers_chain_sender_nonce_version')
        ),
        sa.UniqueConstraint('tx_hash', name=op.f('uq_evm_nonce_fillers_tx_hash')),
        schema='qtg',
    )
    op.create_index(
        'ix_evm_nonce_fillers_open',
        'evm_nonce_fillers',
        ['chain', 'sender', 'nonce'],
        schema='qtg',
        postgresql_where=sa.text("filler_state IN ('ORDERED', 'PREPARED', 'SENT')"),
    )
