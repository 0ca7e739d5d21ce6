"""Breakers: what may not start at the moment, and how fast it is let go again."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'breakers',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('scope', sa.Text(), nullable=False),
        sa.Column('opened_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('opened_by', sa.Text(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('released_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('released_by', sa.Text(), nullable=True),
        sa.Column('release_per_minute', sa.Integer(), nullable=True),
        sa.Column('let_through', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
        sa.Column('closed_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('closed_by', sa.Text(), nullable=True),
        sa.Column('close_reason', sa.Text(), nullable=True),
        sa.CheckConstraint("scope <> ''", name=op.f('ck_breakers_scope_not_empty')),
        sa.CheckConstraint("opened_by <> ''", name=op.f('ck_breakers_opened_by_not_empty')),
        sa.CheckConstraint("reason <> ''", name=op.f('ck_breakers_reason_not_empty')),
        sa.CheckConstraint('release_per_minute > 0', name=op.f('ck_breakers_release_per_minute_positive')),
        sa.CheckConstraint(
            '(released_at IS NULL) = (release_per_minute IS NULL)', name=op.f('ck_breakers_released_at_a_rate')
        ),
        sa.CheckConstraint('(closed_at IS NULL) = (closed_by IS NULL)', name=op.f('ck_breakers_closed_by_someone')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_breakers')),
        schema='qtg',
    )
    op.create_index(
        'uq_breakers_open',
        'breakers',
        ['network_class', 'scope'],
        unique=True,
        schema='qtg',
        postgresql_where=sa.text('closed_at IS NULL'),
    )
    op.create_index('ix_breakers_scope', 'breakers', ['network_class', 'scope', 'opened_at'], schema='qtg')
    op.create_table(
        'breaker_starts',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('breaker_id', sa.BigInteger(), nullable=False),
        sa.Column('request_node_id', postgresql.UUID(as_uuid=False), nullable=False),
        sa.Column('started_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
        sa.ForeignKeyConstraint(
            ['breaker_id'], ['qtg.breakers.id'], name=op.f('fk_breaker_starts_breaker_id_breakers')
        ),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_breaker_starts')),
        schema='qtg',
    )
    op.create_index('ix_breaker_starts_recent', 'breaker_starts', ['breaker_id', 'started_at'], schema='qtg')
    op.add_column(
        'movement_request_nodes',
        sa.Column('scopes', postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        schema='qtg',
    )
    # What is known of nodes that stand already; without the guard, to which this is no look at them.
    op.execute('ALTER TABLE qtg.movement_request_nodes DISABLE TRIGGER guard_movement_request_nodes')
    op.execute("""UPDATE qtg.movement_request_nodes n
        SET scopes = array_remove(ARRAY[
            'lane:' || split_part(n.executor_key, '.', 2),
            'network:' || r.network_class
        ], NULL)
        FROM qtg.movement_requests r
        WHERE r.id = n.request_id AND r.finished_at IS NULL""")
    op.execute('ALTER TABLE qtg.movement_request_nodes ENABLE TRIGGER guard_movement_request_nodes')
