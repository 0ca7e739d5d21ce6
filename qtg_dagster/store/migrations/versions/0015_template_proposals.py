"""Proposed template versions, and what people said of them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'template_proposals',
        sa.Column('id', postgresql.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
        sa.Column('network_class', sa.Text(), nullable=False),
        sa.Column('template_key', sa.Text(), nullable=False),
        sa.Column('based_on', sa.Integer(), nullable=False),
        sa.Column('plan', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column('plan_digest', sa.Text(), nullable=False),
        sa.Column('graph_hash', sa.Text(), nullable=False),
        sa.Column('proposal_state', sa.Text(), nullable=False),
        sa.Column('state_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
        sa.Column('idempotency_key', sa.Text(), nullable=True),
        sa.Column('body_hash', sa.Text(), nullable=False),
        sa.Column('proposed_by', sa.Text(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('required', sa.Integer(), nullable=False),
        sa.Column('plan_version_id', sa.BigInteger(), nullable=True),
        sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('decided_at', sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "proposal_state IN ('APPROVED', 'EXPIRED', 'PENDING', 'REJECTED')",
            name=op.f('ck_template_proposals_proposal_state'),
        ),
        sa.CheckConstraint("network_class <> ''", name=op.f('ck_template_proposals_network_class_not_empty')),
        sa.CheckConstraint("template_key <> ''", name=op.f('ck_template_proposals_template_key_not_empty')),
        sa.CheckConstraint("proposed_by <> ''", name=op.f('ck_template_proposals_proposed_by_not_empty')),
        sa.CheckConstraint("idempotency_key <> ''", name=op.f('ck_template_proposals_idempotency_key_not_empty')),
        sa.CheckConstraint('based_on >= 0', name=op.f('ck_template_proposals_based_on_a_version')),
        sa.CheckConstraint('required >= 1', name=op.f('ck_template_proposals_somebody_must_approve')),
        sa.CheckConstraint(
            "(proposal_state = 'APPROVED') = (plan_version_id IS NOT NULL)",
            name=op.f('ck_template_proposals_approved_is_published'),
        ),
        sa.CheckConstraint(
            "(proposal_state = 'PENDING') = (decided_at IS NULL)",
            name=op.f('ck_template_proposals_decided_when_not_pending'),
        ),
        sa.ForeignKeyConstraint(
            ['plan_version_id'],
            ['qtg.movement_plan_versions.id'],
            name=op.f('fk_template_proposals_plan_version_id_movement_plan_versions'),
        ),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_template_proposals')),
        schema='qtg',
    )
    op.create_index(
        'uq_template_proposals_idempotency_key',
        'template_proposals',
        ['network_class', 'idempotency_key'],
        unique=True,
        schema='qtg',
    )
    op.create_index(
        'ix_template_proposals_pending',
        'template_proposals',
        ['expires_at'],
        schema='qtg',
        postgresql_where=sa.text("proposal_state = 'PENDING'"),
    )
    op.create_index(
        'ix_template_proposals_template_key', 'template_proposals', ['template_key', 'created_at'], schema='qtg'
    )
    op.create_table(
        'template_proposal_decisions',
        sa.Column('id', postgresql.UUID(as_uuid=False), server_default=sa.text('gen_random_uuid()'), nullable=False),
        sa.Column('proposal_id', postgresql.UUID(as_uuid=False), nullable=False),
        sa.Column('decision', sa.Text(), nullable=False),
        sa.Column('actor', sa.Text(), nullable=False),
        sa.Column('plan_digest', sa.Text(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('decided_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint(
            "decision IN ('approved', 'rejected')", name=op.f('ck_template_proposal_decisions_decision')
        ),
        sa.CheckConstraint("actor <> ''", name=op.f('ck_template_proposal_decisions_actor_not_empty')),
        sa.ForeignKeyConstraint(
            ['proposal_id'],
            ['qtg.template_proposals.id'],
            name=op.f('fk_template_proposal_decisions_proposal_id_template_proposals'),
        ),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_template_proposal_decisions')),
        sa.UniqueConstraint(
            'proposal_id', 'decision', 'actor', name=op.f('uq_template_proposal_decisions_proposal_id_decision_actor')
        ),
        schema='qtg',
    )
    # Whoever approved a movement that others must approve too may still reject it.
    op.drop_constraint('uq_movement_approvals_request_id_actor', 'movement_approvals', schema='qtg', type_='unique')
    op.create_unique_constraint(
        op.f('uq_movement_approvals_request_id_decision_actor'),
        'movement_approvals',
        ['request_id', 'decision', 'actor'],
        schema='qtg',
    )
    for statement in STATEMENTS:
        op.execute(sa.text(statement.replace(':', r'\:')))


STATEMENTS = (
    r"""CREATE OR REPLACE FUNCTION qtg.guard_template_proposals() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    NEW.updated_at := now();
    IF TG_OP = 'INSERT' THEN
        IF NEW.proposal_state <> 'PENDING' THEN
            RAISE EXCEPTION 'template_proposals must begin as PENDING, not %', NEW.proposal_state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.proposal_state IS DISTINCT FROM OLD.proposal_state THEN
        IF NOT (OLD.proposal_state || '>' || NEW.proposal_state) = ANY (ARRAY[
        'PENDING>APPROVED',
        'PENDING>EXPIRED',
        'PENDING>REJECTED'
        ]) THEN
            RAISE EXCEPTION 'template_proposals: % may not become %', OLD.proposal_state, NEW.proposal_state
                USING ERRCODE = 'check_violation', HINT = 'legal moves are declared in domain/states.py';
        END IF;
        NEW.state_version := OLD.state_version + 1;
    END IF;
    RETURN NEW;
END
$guard$""",
    r"""CREATE TRIGGER guard_template_proposals BEFORE INSERT OR UPDATE ON qtg.template_proposals FOR EACH ROW EXECUTE FUNCTION qtg.guard_template_proposals()""",
    r"""CREATE OR REPLACE FUNCTION qtg.keep_proposed() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF (NEW.id, NEW.network_class, NEW.template_key, NEW.based_on, NEW.plan, NEW.plan_digest, NEW.graph_hash,
        NEW.body_hash, NEW.proposed_by, NEW.reason, NEW.required, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.network_class, OLD.template_key, OLD.based_on, OLD.plan, OLD.plan_digest, OLD.graph_hash,
        OLD.body_hash, OLD.proposed_by, OLD.reason, OLD.required, OLD.created_at) THEN
        RAISE EXCEPTION 'what was proposed may not be changed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$guard$""",
    r"""CREATE TRIGGER keep_proposed BEFORE UPDATE ON qtg.template_proposals FOR EACH ROW EXECUTE FUNCTION qtg.keep_proposed()""",
    r"""CREATE OR REPLACE FUNCTION qtg.check_proposal_approved() RETURNS trigger LANGUAGE plpgsql AS $guard$
DECLARE
    words integer;
BEGIN
    SELECT count(DISTINCT lower(btrim(d.actor))) INTO words FROM qtg.template_proposal_decisions d
    WHERE d.proposal_id = NEW.id AND d.decision = 'approved' AND d.plan_digest = NEW.plan_digest
      AND lower(btrim(d.actor)) <> lower(btrim(NEW.proposed_by));
    IF words < NEW.required THEN
        RAISE EXCEPTION 'template_proposals: % of % approvals by others', words, NEW.required
            USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (SELECT FROM qtg.movement_plan_versions v JOIN qtg.movement_templates t ON t.id = v.template_id
                   WHERE v.id = NEW.plan_version_id AND t.template_key = NEW.template_key
                     AND v.graph_hash = NEW.graph_hash) THEN
        RAISE EXCEPTION 'template_proposals: approved as a version of something else' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$guard$""",
    r"""CREATE TRIGGER check_proposal_approved BEFORE UPDATE OF proposal_state ON qtg.template_proposals FOR EACH ROW WHEN (NEW.proposal_state = 'APPROVED' AND OLD.proposal_state <> 'APPROVED') EXECUTE FUNCTION qtg.check_proposal_approved()""",
    r"""CREATE TRIGGER append_only_template_proposal_decisions BEFORE UPDATE OR DELETE ON qtg.template_proposal_decisions FOR EACH ROW EXECUTE FUNCTION qtg.refuse_rewrite()""",
)
