"""Double-entry lines of movements, posted in the commits of their transitions."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'movement_node_attempts',
        sa.Column('ledger', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        schema='qtg',
    )
    op.create_table(
        'ledger_lines',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column('request_id', sa.UUID(as_uuid=False), nullable=False),
        sa.Column('request_node_id', sa.UUID(as_uuid=False), nullable=False),
        sa.Column('attempt_no', sa.Integer(), nullable=False),
        sa.Column('entry_kind', sa.Text(), nullable=False),
        sa.Column('from_account', sa.Text(), nullable=False),
        sa.Column('to_account', sa.Text(), nullable=False),
        sa.Column('asset', sa.Text(), nullable=False),
        sa.Column('decimals', sa.SmallInteger(), nullable=False),
        sa.Column('base_units', sa.Numeric(precision=78, scale=0), nullable=False),
        sa.Column('step_id', sa.BigInteger(), nullable=True),
        sa.Column('posted_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint("entry_kind IN ('arrival', 'charge', 'departure', 'gas', 'return', 'shortfall', 'withheld')", name=op.f('ck_ledger_lines_entry_kind')),
        sa.CheckConstraint("from_account <> ''", name=op.f('ck_ledger_lines_from_account_not_empty')),
        sa.CheckConstraint("to_account <> ''", name=op.f('ck_ledger_lines_to_account_not_empty')),
        sa.CheckConstraint("asset <> ''", name=op.f('ck_ledger_lines_asset_not_empty')),
        sa.CheckConstraint('base_units > 0', name=op.f('ck_ledger_lines_moves_something')),
        sa.CheckConstraint('from_account <> to_account', name=op.f('ck_ledger_lines_moves_somewhere')),
        sa.ForeignKeyConstraint(['request_id'], ['qtg.movement_requests.id'], name=op.f('fk_ledger_lines_request_id_movement_requests')),
        sa.ForeignKeyConstraint(['request_node_id'], ['qtg.movement_request_nodes.id'], name=op.f('fk_ledger_lines_request_node_id_movement_request_nodes')),
        sa.ForeignKeyConstraint(['step_id'], ['qtg.movement_node_steps.id'], name=op.f('fk_ledger_lines_step_id_movement_node_steps')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_ledger_lines')),
        sa.UniqueConstraint('request_node_id', 'attempt_no', 'entry_kind', name=op.f('uq_ledger_lines_request_node_id_attempt_no_entry_kind')),
        schema='qtg',
    )
    op.create_index('ix_ledger_lines_departures', 'ledger_lines', ['request_id'], unique=False, schema='qtg', postgresql_where=sa.text("entry_kind = 'departure'"))
    op.create_index('ix_ledger_lines_request_id', 'ledger_lines', ['request_id', 'id'], unique=False, schema='qtg')
    for statement in STATEMENTS:
        op.execute(sa.text(statement.replace(':', r'\:')))


STATEMENTS = (
    r"""CREATE OR REPLACE FUNCTION qtg.base_units(amount text, decimals integer) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $units$
    SELECT CASE WHEN units = trunc(units) THEN trunc(units) END
    FROM (SELECT CASE WHEN amount ~ '^(0|[1-9][0-9]{0,40})([.][0-9]{1,36})?$'
                      THEN amount::numeric * ('1e' || decimals)::numeric END AS units) AS exact
$units$""",
    r"""CREATE OR REPLACE FUNCTION qtg.post_line(
    of_attempt qtg.ledger_lines, kind text, source text, target text, in_asset text, with_decimals integer,
    units numeric, step bigint
) RETURNS boolean LANGUAGE plpgsql AS $post$
BEGIN
    IF units IS NULL OR units <= 0 THEN
        RETURN false;
    END IF;
    INSERT INTO qtg.ledger_lines (request_id, request_node_id, attempt_no, entry_kind, from_account, to_account,
                                  asset, decimals, base_units, step_id)
    VALUES (of_attempt.request_id, of_attempt.request_node_id, of_attempt.attempt_no, kind, source, target,
            in_asset, with_decimals, units, step)
    ON CONFLICT (request_node_id, attempt_no, entry_kind) DO NOTHING;
    RETURN FOUND;
END
$post$""",
    r"""CREATE OR REPLACE FUNCTION qtg.post_departure() RETURNS trigger LANGUAGE plpgsql AS $post$
BEGIN
    INSERT INTO qtg.ledger_lines (request_id, request_node_id, attempt_no, entry_kind, from_account, to_account,
                                  asset, decimals, base_units, step_id)
    SELECT n.request_id, n.id, NEW.attempt_no, 'departure', NEW.ledger ->> 'source', 'transit:' || n.request_id,
           NEW.ledger ->> 'asset', (NEW.ledger ->> 'decimals')::integer, (NEW.ledger ->> 'units')::numeric,
           (SELECT max(s.id) FROM qtg.movement_node_steps s WHERE s.request_node_id = n.id)
    FROM qtg.movement_request_nodes n
    WHERE n.id = NEW.request_node_id
    ON CONFLICT (request_node_id, attempt_no, entry_kind) DO NOTHING;
    RETURN NULL;
END
$post$""",
    r"""CREATE OR REPLACE FUNCTION qtg.post_outcome() RETURNS trigger LANGUAGE plpgsql AS $post$
DECLARE
    gone qtg.ledger_lines;
    plan record;
    rest numeric;
    fee numeric;
    part numeric;
    step bigint;
    arrived boolean;
    returned boolean;
BEGIN
    FOR gone IN SELECT * FROM qtg.ledger_lines
                WHERE request_id = NEW.request_id AND entry_kind = 'departure' ORDER BY id LOOP
        step := coalesce(step, CASE WHEN NEW.node_state = 'READY' THEN
            (SELECT max(s.id) FROM qtg.movement_node_steps s WHERE s.request_node_id = NEW.id)
            ELSE NEW.evidence_step_id END);
        SELECT gone.base_units - coalesce(sum(base_units) FILTER (WHERE from_account = gone.to_account), 0),
               coalesce(bool_or(entry_kind = 'arrival'), false), coalesce(bool_or(entry_kind = 'return'), false)
        INTO rest, arrived, returned
        FROM qtg.ledger_lines
        WHERE request_node_id = gone.request_node_id AND attempt_no = gone.attempt_no;
        FOR plan IN
            SELECT f.* FROM qtg.movement_node_attempts a,
                 jsonb_to_recordset(a.ledger -> 'follow_ups') AS f(
                     node text, state text, post text, account text, amount text, codes jsonb, asset text,
                     decimals integer)
            WHERE a.request_node_id = gone.request_node_id AND a.attempt_no = gone.attempt_no
              AND f.node = NEW.node_key AND f.state = NEW.node_state AND NOT returned
        LOOP
            CASE plan.post
            WHEN 'gas' THEN
                IF gone.attempt_no = NEW.attempt_no THEN
                    PERFORM qtg.post_line(gone, 'gas', gone.from_account, plan.account, plan.asset, plan.decimals,
                        qtg.base_units(NEW.provider_refs ->> plan.amount, plan.decimals), step);
                END IF;
            WHEN 'return' THEN
                IF plan.codes ? NEW.error_code THEN
                    PERFORM qtg.post_line(gone, 'return', gone.to_account, gone.from_account, gone.asset,
                        gone.decimals, rest, step);
                END IF;
            WHEN 'withheld' THEN
                fee := qtg.base_units(NEW.provider_refs ->> 'withdrawal_fee', gone.decimals);
                part := least(fee, greatest(0, gone.base_units - coalesce(
                    qtg.base_units(NEW.provider_refs ->> 'withdrawal_amount', gone.decimals), gone.base_units)));
                IF NOT arrived AND qtg.post_line(gone, 'withheld', gone.to_account, plan.account, gone.asset,
                                                 gone.decimals, part, step) THEN
                    rest := rest - part;
                END IF;
                PERFORM qtg.post_line(gone, 'charge', gone.from_account, plan.account, gone.asset, gone.decimals,
                    fee - part, step);
            WHEN 'arrival' THEN
                part := CASE WHEN plan.amount IS NULL THEN rest
                             ELSE qtg.base_units(NEW.provider_refs ->> plan.amount, gone.decimals) END;
                IF qtg.post_line(gone, 'arrival', gone.to_account, plan.account, gone.asset, gone.decimals,
                                 part, step) THEN
                    PERFORM qtg.post_line(gone, 'shortfall', gone.to_account, 'fee:on the way', gone.asset,
                        gone.decimals, rest - part, step);
                END IF;
            ELSE NULL;
            END CASE;
        END LOOP;
        IF gone.request_node_id = NEW.id AND NEW.node_state <> 'COMPLETED' THEN
            PERFORM qtg.post_line(gone, 'return', gone.to_account, gone.from_account, gone.asset, gone.decimals,
                rest, step);
        END IF;
    END LOOP;
    RETURN NULL;
END
$post$""",
    r"""CREATE TRIGGER ledger_departure AFTER INSERT ON qtg.movement_node_attempts
FOR EACH ROW WHEN (NEW.ledger ? 'units') EXECUTE FUNCTION qtg.post_departure()""",
    r"""CREATE TRIGGER ledger_outcome AFTER UPDATE OF node_state ON qtg.movement_request_nodes
FOR EACH ROW WHEN (OLD.node_state IS DISTINCT FROM NEW.node_state AND (NEW.node_state IN ('COMPLETED', 'FAILED')
    OR (NEW.node_state = 'READY' AND OLD.node_state = 'SUBMITTING'))) EXECUTE FUNCTION qtg.post_outcome()""",
    r"""CREATE TRIGGER append_only_ledger_lines BEFORE UPDATE OR DELETE ON qtg.ledger_lines FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()""",
)
