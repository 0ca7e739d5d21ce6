"""Several drains of a kind, each in a slot of its own."""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'runners', sa.Column('slot', sa.Integer(), server_default=sa.text('0'), nullable=False), schema='qtg'
    )
