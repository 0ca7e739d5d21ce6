"""The core group: when its workers died, and whether it stands still."""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'core_deaths',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('worker', sa.Text(), nullable=False),
        sa.Column('incident', sa.Text(), nullable=False),
        sa.Column('cause', sa.Text(), nullable=False),
        sa.Column('runner_id', sa.BigInteger(), nullable=True),
        sa.Column('dagster_run_id', sa.Text(), nullable=True),
        sa.Column('began_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('noticed_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('noticed_by', sa.Text(), nullable=False),
        sa.Column('detail', sa.Text(), nullable=False),
        sa.CheckConstraint(
            "cause IN ('crashed', 'database_restarted', 'run_failed', 'vanished')", name=op.f('ck_core_deaths_cause')
        ),
        sa.CheckConstraint("incident <> ''", name=op.f('ck_core_deaths_incident_not_empty')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_core_deaths')),
        sa.UniqueConstraint('incident', name=op.f('uq_core_deaths_incident')),
        schema='qtg',
    )
    op.create_table(
        'core_group_events',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('event', sa.Text(), nullable=False),
        sa.Column('worker', sa.Text(), nullable=True),
        sa.Column('falls', sa.Integer(), server_default=sa.text('0'), nullable=False),
        sa.Column('occurred_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('restart_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('actor', sa.Text(), nullable=True),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.CheckConstraint("event IN ('halt', 'restart', 'resume')", name=op.f('ck_core_group_events_event')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_core_group_events')),
        schema='qtg',
    )
    op.create_index('ix_core_group_events_network_class', 'core_group_events', ['network_class', 'id'], schema='qtg')
    op.create_index(
        'ix_runners_unfinished',
        'runners',
        ['network_class', 'id'],
        schema='qtg',
        postgresql_where=sa.text("end_reason IS DISTINCT FROM 'finished'"),
    )
    # Those that died before anyone kept this book are no fall of today.
    op.execute("""UPDATE qtg.runners SET ended_at = now(), end_reason = 'died'
        WHERE ended_at IS NULL AND id NOT IN (SELECT runner_id FROM qtg.live_runners)""")
    for table in ('core_deaths', 'core_group_events'):
        op.execute(
            f'CREATE TRIGGER append_only_{table} BEFORE UPDATE OR DELETE ON qtg.{table} '
            'FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()'
        )
