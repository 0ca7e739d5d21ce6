"""Breakers that are released let nodes through in turns, and know whom."""

import sqlalchemy as sa
from alembic import op

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'breakers', sa.Column('next_start_at', sa.DateTime(timezone=True), nullable=True), schema='qtg'
    )
    op.execute('UPDATE qtg.breakers SET next_start_at = now() WHERE released_at IS NOT NULL')
    op.create_check_constraint(
        op.f('ck_breakers_released_in_turns'),
        'breakers',
        '(released_at IS NULL) = (next_start_at IS NULL)',
        schema='qtg',
    )
    op.create_index(
        'uq_breaker_starts_node', 'breaker_starts', ['breaker_id', 'request_node_id'], unique=True, schema='qtg'
    )
