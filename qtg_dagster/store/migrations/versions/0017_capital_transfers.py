"""Capital transfers, and intents of CCIP sends."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('capital_transfer_requests',
    sa.Column('id', sa.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('transfer_state', sa.Text(), nullable=False),
    sa.Column('state_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('state_since', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('destination', sa.Text(), nullable=False),
    sa.Column('asset', sa.Text(), nullable=False),
    sa.Column('decimals', sa.SmallInteger(), nullable=False),
    sa.Column('base_units', sa.Numeric(precision=78, scale=0), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('requested_by', sa.Text(), nullable=False),
    sa.Column('wanted_by', sa.DateTime(timezone=True), nullable=True),
    sa.Column('idempotency_key', sa.Text(), nullable=True),
    sa.Column('body_hash', sa.Text(), nullable=False),
    sa.Column('attempt_no', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('attention_kind', sa.Text(), nullable=True),
    sa.Column('attention', sa.Text(), nullable=True),
    sa.Column('attention_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("(transfer_state IN ('SETTLED', 'CANCELLED', 'CLOSED')) = (finished_at IS NOT NULL)", name=op.f('ck_capital_transfer_requests_ends_have_a_time')),
    sa.CheckConstraint("attention_kind IN ('ended', 'may_have_moved', 'movement_gone', 'not_begun', 'overdue', 'stale')", name=op.f('ck_capital_transfer_requests_attention_kind')),
    sa.CheckConstraint("idempotency_key <> ''", name=op.f('ck_capital_transfer_requests_idempotency_key_not_empty')),
    sa.CheckConstraint("network_class <> ''", name=op.f('ck_capital_transfer_requests_network_class_not_empty')),
    sa.CheckConstraint("requested_by <> ''", name=op.f('ck_capital_transfer_requests_requested_by_not_empty')),
    sa.CheckConstraint("transfer_state <> 'NEEDS_ATTENTION' OR attention IS NOT NULL", name=op.f('ck_capital_transfer_requests_attention_is_explained')),
    sa.CheckConstraint("transfer_state IN ('CANCELLED', 'CLOSED', 'MOVING', 'NEEDS_ATTENTION', 'REQUESTED', 'SETTLED')", name=op.f('ck_capital_transfer_requests_transfer_state')),
    sa.CheckConstraint('(attention_kind IS NULL) = (attention IS NULL) AND (attention_kind IS NULL) = (attention_since IS NULL)', name=op.f('ck_capital_transfer_requests_attention_is_whole')),
    sa.CheckConstraint('attempt_no >= 1', name=op.f('ck_capital_transfer_requests_attempt_counted')),
    sa.CheckConstraint('base_units > 0', name=op.f('ck_capital_transfer_requests_moves_something')),
    sa.CheckConstraint('source <> destination', name=op.f('ck_capital_transfer_requests_goes_elsewhere')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_capital_transfer_requests')),
    schema='qtg'
    )
    op.create_index('ix_capital_transfer_requests_finished', 'capital_transfer_requests', ['finished_at'], unique=False, schema='qtg', postgresql_where=sa.text('finished_at IS NOT NULL'))
    op.create_index('ix_capital_transfer_requests_open', 'capital_transfer_requests', ['created_at', 'id'], unique=False, schema='qtg', postgresql_where=sa.text('finished_at IS NULL'))
    op.create_index('uq_capital_transfer_requests_idempotency_key', 'capital_transfer_requests', ['network_class', 'idempotency_key'], unique=True, schema='qtg')
    op.create_table('capital_transfer_attempts',
    sa.Column('transfer_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('attempt_no', sa.Integer(), nullable=False),
    sa.Column('movement_request_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('route', sa.Text(), nullable=False),
    sa.Column('template_key', sa.Text(), nullable=False),
    sa.Column('begun_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['transfer_id'], ['qtg.capital_transfer_requests.id'], name=op.f('fk_capital_transfer_attempts_transfer_id_capital_transfer_requests')),
    sa.PrimaryKeyConstraint('transfer_id', 'attempt_no', name=op.f('pk_capital_transfer_attempts')),
    sa.UniqueConstraint('movement_request_id', name=op.f('uq_capital_transfer_attempts_movement_request_id')),
    schema='qtg'
    )
    op.create_table('ccip_send_intent',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('network_class', sa.Text(), nullable=False),
    sa.Column('request_node_id', sa.UUID(as_uuid=False), nullable=False),
    sa.Column('attempt_no', sa.Integer(), nullable=False),
    sa.Column('send_state', sa.Text(), nullable=False),
    sa.Column('state_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('source_chain', sa.Text(), nullable=False),
    sa.Column('destination_selector', sa.Numeric(precision=20, scale=0), nullable=False),
    sa.Column('router', sa.Text(), nullable=False),
    sa.Column('sender', sa.Text(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), nullable=True),
    sa.Column('tx_hash', sa.Text(), nullable=True),
    sa.Column('message_id', sa.Text(), nullable=True),
    sa.Column('attention', sa.Text(), nullable=True),
    sa.Column('resolution', sa.Text(), nullable=True),
    sa.Column('evidence_step_id', sa.BigInteger(), nullable=True),
    sa.Column('intended_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('sent_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('stranded_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('resolved_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("(send_state = 'RESOLVED') = (resolution IS NOT NULL AND evidence_step_id IS NOT NULL)", name=op.f('ck_ccip_send_intent_end_has_evidence')),
    sa.CheckConstraint("(send_state = 'STRANDED') = (attention IS NOT NULL)", name=op.f('ck_ccip_send_intent_stranded_is_explained')),
    sa.CheckConstraint("network_class <> ''", name=op.f('ck_ccip_send_intent_network_class_not_empty')),
    sa.CheckConstraint("resolution IN ('took_effect', 'without_effect')", name=op.f('ck_ccip_send_intent_resolution')),
    sa.CheckConstraint("router <> ''", name=op.f('ck_ccip_send_intent_router_not_empty')),
    sa.CheckConstraint("send_state <> 'SENT' OR message_id IS NOT NULL", name=op.f('ck_ccip_send_intent_sent_has_message')),
    sa.CheckConstraint("send_state IN ('INTENT', 'RESOLVED', 'SENT', 'STRANDED')", name=op.f('ck_ccip_send_intent_send_state')),
    sa.CheckConstraint("sender <> ''", name=op.f('ck_ccip_send_intent_sender_not_empty')),
    sa.CheckConstraint("source_chain <> ''", name=op.f('ck_ccip_send_intent_source_chain_not_empty')),
    sa.CheckConstraint('destination_selector BETWEEN 0 AND 18446744073709551615', name=op.f('ck_ccip_send_intent_selector_fits')),
    sa.CheckConstraint('nonce >= 0', name=op.f('ck_ccip_send_intent_nonce_not_negative')),
    sa.ForeignKeyConstraint(['evidence_step_id'], ['qtg.movement_node_steps.id'], name=op.f('fk_ccip_send_intent_evidence_step_id_movement_node_steps')),
    sa.ForeignKeyConstraint(['request_node_id'], ['qtg.movement_request_nodes.id'], name=op.f('fk_ccip_send_intent_request_node_id_movement_request_nodes')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_ccip_send_intent')),
    sa.UniqueConstraint('request_node_id', 'attempt_no', name=op.f('uq_ccip_send_intent_request_node_id_attempt_no')),
    schema='qtg'
    )
    op.create_index('ix_ccip_send_intent_evidence', 'ccip_send_intent', ['evidence_step_id'], unique=False, schema='qtg', postgresql_where=sa.text('evidence_step_id IS NOT NULL'))
    op.create_index('ix_ccip_send_intent_message_id', 'ccip_send_intent', ['message_id'], unique=False, schema='qtg', postgresql_where=sa.text('message_id IS NOT NULL'))
    op.create_index('ix_ccip_send_intent_open', 'ccip_send_intent', ['id'], unique=False, schema='qtg', postgresql_where=sa.text("send_state <> 'RESOLVED'"))
    for statement in STATEMENTS:
        op.execute(sa.text(statement.replace(':', r'\:')))


STATEMENTS = (
    r"""CREATE OR REPLACE FUNCTION qtg.guard_capital_transfer_requests() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.transfer_state <> 'REQUESTED' THEN
            RAISE EXCEPTION 'capital_transfer_requests must begin as REQUESTED, not %', NEW.transfer_state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.transfer_state IS DISTINCT FROM OLD.transfer_state THEN
        IF NOT (OLD.transfer_state || '>' || NEW.transfer_state) = ANY (ARRAY[
        'MOVING>CANCELLED',
        'MOVING>NEEDS_ATTENTION',
        'MOVING>REQUESTED',
        'MOVING>SETTLED',
        'NEEDS_ATTENTION>CANCELLED',
        'NEEDS_ATTENTION>CLOSED',
        'NEEDS_ATTENTION>MOVING',
        'NEEDS_ATTENTION>REQUESTED',
        'NEEDS_ATTENTION>SETTLED',
        'REQUESTED>CANCELLED',
        'REQUESTED>MOVING',
        'REQUESTED>NEEDS_ATTENTION'
        ]) THEN
            RAISE EXCEPTION 'capital_transfer_requests: % may not become %', OLD.transfer_state, NEW.transfer_state
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in domain/capital_transfers.py';
        END IF;
        NEW.state_version := OLD.state_version + 1;
    END IF;
    RETURN NEW;
END
$guard$""",
    r"""CREATE TRIGGER guard_capital_transfer_requests BEFORE INSERT OR UPDATE ON qtg.capital_transfer_requests FOR EACH ROW EXECUTE FUNCTION qtg.guard_capital_transfer_requests()""",
    r"""CREATE OR REPLACE FUNCTION qtg.guard_capital_transfer_attempts() RETURNS trigger
LANGUAGE plpgsql AS $guard$
DECLARE
    earlier record;
BEGIN
    IF NOT EXISTS (SELECT FROM qtg.movement_requests WHERE id = NEW.movement_request_id) THEN
        RAISE EXCEPTION 'there is no movement % for a capital transfer', NEW.movement_request_id
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    PERFORM FROM qtg.capital_transfer_requests WHERE id = NEW.transfer_id AND attempt_no = NEW.attempt_no FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'attempt % is not the present one of capital transfer %', NEW.attempt_no, NEW.transfer_id
            USING ERRCODE = 'check_violation';
    END IF;
    FOR earlier IN SELECT movement_request_id AS id FROM qtg.capital_transfer_attempts
                   WHERE transfer_id = NEW.transfer_id LOOP
        PERFORM FROM qtg.movement_requests
        WHERE id = earlier.id AND request_state IN ('REJECTED', 'EXPIRED', 'CANCELLED') FOR UPDATE;
        IF NOT FOUND OR EXISTS (
            SELECT FROM qtg.movement_request_nodes n
            WHERE n.request_id = earlier.id AND n.node_kind = 'action'
              AND (n.node_state IN ('COMPLETED', 'SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN')
                   OR EXISTS (SELECT FROM qtg.movement_node_attempts a
                              WHERE a.request_node_id = n.id
                                AND coalesce(a.outcome, '') NOT IN ('NOT_SENT', 'REJECTED', 'FAILED')))
        ) THEN
            RAISE EXCEPTION 'capital transfer %: movement % may have moved money, or still may',
                NEW.transfer_id, earlier.id USING ERRCODE = 'check_violation';
        END IF;
    END LOOP;
    RETURN NEW;
END
$guard$""",
    r"""CREATE TRIGGER guard_capital_transfer_attempts BEFORE INSERT OR UPDATE ON qtg.capital_transfer_attempts FOR EACH ROW EXECUTE FUNCTION qtg.guard_capital_transfer_attempts()""",
    r"""CREATE OR REPLACE FUNCTION qtg.guard_ccip_send_intent() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.send_state <> 'INTENT' THEN
            RAISE EXCEPTION 'ccip_send_intent must begin as INTENT, not %', NEW.send_state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.send_state IS DISTINCT FROM OLD.send_state THEN
        IF NOT (OLD.send_state || '>' || NEW.send_state) = ANY (ARRAY[
        'INTENT>RESOLVED',
        'INTENT>SENT',
        'INTENT>STRANDED',
        'SENT>RESOLVED',
        'SENT>STRANDED',
        'STRANDED>RESOLVED',
        'STRANDED>SENT'
        ]) THEN
            RAISE EXCEPTION 'ccip_send_intent: % may not become %', OLD.send_state, NEW.send_state
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in domain/ccip_sends.py';
        END IF;
        NEW.state_version := OLD.state_version + 1;
    END IF;
    RETURN NEW;
END
$guard$""",
    r"""CREATE TRIGGER guard_ccip_send_intent BEFORE INSERT OR UPDATE ON qtg.ccip_send_intent FOR EACH ROW EXECUTE FUNCTION qtg.guard_ccip_send_intent()""",
)
