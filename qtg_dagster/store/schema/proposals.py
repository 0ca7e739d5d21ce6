"""Proposed template versions, and what people said of them."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from qtg_dagster.domain.states import INITIAL_PROPOSAL_STATE, PROPOSAL_MOVES, ProposalState
from qtg_dagster.store.schema.base import document, metadata, not_empty, one_of, timestamp, uuid_key, words
from qtg_dagster.store.schema.triggers import append_only_trigger, guard_function, guard_trigger

template_proposals = Table(
    "template_proposals",
    metadata,
    uuid_key(),
    words("network_class"),
    words("template_key"),
    # The version that it was made from; 0 = the template is new.
    Column("based_on", Integer, nullable=False),
    document("plan", default=None),
    words("plan_digest"),
    words("graph_hash"),
    words("proposal_state"),
    Column("state_version", Integer, nullable=False, server_default=text("0")),
    words("idempotency_key", nullable=True),
    words("body_hash"),
    words("proposed_by"),
    words("reason"),
    Column("required", Integer, nullable=False),
    Column("plan_version_id", BigInteger, ForeignKey("qtg.movement_plan_versions.id")),
    timestamp("expires_at"),
    timestamp("created_at", now=True),
    timestamp("updated_at", now=True),
    timestamp("decided_at"),
    one_of("proposal_state", ProposalState),
    not_empty("network_class"),
    not_empty("template_key"),
    not_empty("proposed_by"),
    CheckConstraint("idempotency_key <> ''", name="idempotency_key_not_empty"),
    CheckConstraint("based_on >= 0", name="based_on_a_version"),
    CheckConstraint("required >= 1", name="somebody_must_approve"),
    CheckConstraint("(proposal_state = 'APPROVED') = (plan_version_id IS NOT NULL)", name="approved_is_published"),
    CheckConstraint("(proposal_state = 'PENDING') = (decided_at IS NULL)", name="decided_when_not_pending"),
    Index("uq_template_proposals_idempotency_key", "network_class", "idempotency_key", unique=True),
    Index("ix_template_proposals_pending", "expires_at", postgresql_where=text("proposal_state = 'PENDING'")),
    Index("ix_template_proposals_template_key", "template_key", "created_at"),
)

template_proposal_decisions = Table(
    "template_proposal_decisions",
    metadata,
    uuid_key(),
    Column("proposal_id", UUID(as_uuid=False), ForeignKey("qtg.template_proposals.id"), nullable=False),
    words("decision"),
    words("actor"),
    words("plan_digest"),
    words("reason"),
    timestamp("decided_at", now=True),
    one_of("decision", ["approved", "rejected"]),
    not_empty("actor"),
    UniqueConstraint("proposal_id", "decision", "actor"),
)

PROPOSALS_APPEND_ONLY = ("template_proposal_decisions",)

#: What was proposed is what is decided on: nobody changes it meanwhile, and nobody takes a proposal away.
KEEP_PROPOSED = """CREATE OR REPLACE FUNCTION qtg.keep_proposed() RETURNS trigger LANGUAGE plpgsql AS $guard$
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
$guard$"""
KEEP_PROPOSED_TRIGGER = (
    "CREATE TRIGGER keep_proposed BEFORE UPDATE ON qtg.template_proposals "
    "FOR EACH ROW EXECUTE FUNCTION qtg.keep_proposed()"
)

#: Four eyes, whoever writes: APPROVED only with so many words of others on exactly this plan, and as a version of it.
CHECK_APPROVED = """CREATE OR REPLACE FUNCTION qtg.check_proposal_approved() RETURNS trigger LANGUAGE plpgsql AS $guard$
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
$guard$"""
CHECK_APPROVED_TRIGGER = (
    "CREATE TRIGGER check_proposal_approved BEFORE UPDATE OF proposal_state ON qtg.template_proposals FOR EACH ROW "
    "WHEN (NEW.proposal_state = 'APPROVED' AND OLD.proposal_state <> 'APPROVED') "
    "EXECUTE FUNCTION qtg.check_proposal_approved()"
)

STATEMENTS = (
    guard_function("template_proposals", "proposal_state", PROPOSAL_MOVES, INITIAL_PROPOSAL_STATE),
    guard_trigger("template_proposals"),
    KEEP_PROPOSED,
    KEEP_PROPOSED_TRIGGER,
    CHECK_APPROVED,
    CHECK_APPROVED_TRIGGER,
    *(append_only_trigger(table) for table in PROPOSALS_APPEND_ONLY),
)

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
