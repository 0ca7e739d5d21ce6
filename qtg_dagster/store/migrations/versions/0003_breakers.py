"""Breakers: what may not start at the moment, and how fast it is let go again."""

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
