"""How much of an asset may leave in a day: kept in the commit of the intent."""

import sqlalchemy as sa
from alembic import op

revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'velocity_limits',
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('asset', sa.Text(), nullable=False),
        sa.Column('decimals', sa.SmallInteger(), nullable=False),
        sa.Column('daily_units', sa.Numeric(precision=78, scale=0), nullable=False),
        sa.Column('set_by', sa.Text(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('set_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint("network_class <> ''", name=op.f('ck_velocity_limits_network_class_not_empty')),
        sa.CheckConstraint("asset <> ''", name=op.f('ck_velocity_limits_asset_not_empty')),
        sa.CheckConstraint("set_by <> ''", name=op.f('ck_velocity_limits_set_by_not_empty')),
        sa.CheckConstraint('daily_units >= 0', name=op.f('ck_velocity_limits_not_negative')),
        sa.PrimaryKeyConstraint('network_class', 'asset', name=op.f('pk_velocity_limits')),
        schema='qtg',
    )
    op.create_table(
        'velocity_spends',
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('asset', sa.Text(), nullable=False),
        sa.Column('day', sa.Date(), nullable=False),
        sa.Column('units', sa.Numeric(precision=78, scale=0), nullable=False),
        sa.CheckConstraint('units >= 0', name=op.f('ck_velocity_spends_not_negative')),
        sa.PrimaryKeyConstraint('network_class', 'asset', 'day', name=op.f('pk_velocity_spends')),
        schema='qtg',
    )
    for statement in STATEMENTS:
        op.execute(sa.text(statement.replace(':', r'\:')))


STATEMENTS = (
    r"""CREATE OR REPLACE FUNCTION qtg.spend_velocity() RETURNS trigger LANGUAGE plpgsql AS $spend$
DECLARE
    class text;
    allowed numeric;
    spent numeric;
    unit numeric;
BEGIN
    SELECT network_class INTO class FROM qtg.movement_requests WHERE id = NEW.request_id;
    PERFORM FROM qtg.velocity_limits WHERE network_class = class ORDER BY asset FOR UPDATE;
    SELECT daily_units, ('1e-' || decimals)::numeric INTO allowed, unit FROM qtg.velocity_limits
    WHERE network_class = class AND asset = NEW.asset;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF NEW.entry_kind = 'return' THEN
        UPDATE qtg.velocity_spends v SET units = greatest(0, v.units - NEW.base_units)
        FROM qtg.ledger_lines gone
        WHERE gone.request_node_id = NEW.request_node_id AND gone.attempt_no = NEW.attempt_no
          AND gone.entry_kind = 'departure' AND v.network_class = class AND v.asset = NEW.asset
          AND v.day = (gone.posted_at AT TIME ZONE 'UTC')::date;
        RETURN NULL;
    END IF;
    INSERT INTO qtg.velocity_spends AS v (network_class, asset, day, units)
    VALUES (class, NEW.asset, (NEW.posted_at AT TIME ZONE 'UTC')::date, NEW.base_units)
    ON CONFLICT (network_class, asset, day) DO UPDATE SET units = v.units + excluded.units
    RETURNING units INTO spent;
    -- What was adopted has left already: it counts, and there is nothing to refuse.
    IF spent > allowed AND current_setting('qtg.adopting', true) IS DISTINCT FROM 'yes' THEN
        RAISE EXCEPTION '% % would make it % today, over the limit of %', trim_scale(NEW.base_units * unit), NEW.asset,
            trim_scale(spent * unit), trim_scale(allowed * unit)
            USING ERRCODE = 'QV001';
    END IF;
    RETURN NULL;
END
$spend$""",
    r"""CREATE TRIGGER spend_velocity AFTER INSERT ON qtg.ledger_lines
FOR EACH ROW WHEN (NEW.entry_kind IN ('departure', 'return')) EXECUTE FUNCTION qtg.spend_velocity()""",
)
