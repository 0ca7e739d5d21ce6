"""Proposed template versions in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.errors import NotFound
from qtg_dagster.domain.plans import graph_hash
from qtg_dagster.domain.proposals import NewProposal, Proposal, plan_digest
from qtg_dagster.domain.states import ProposalState, check_proposal_move
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.decision_rows import is_request_id
from qtg_dagster.store.statements import as_json

_INSERT = text("""
    INSERT INTO qtg.template_proposals
        (network_class, template_key, based_on, plan, plan_digest, graph_hash, proposal_state, idempotency_key,
         body_hash, proposed_by, reason, required, expires_at)
    VALUES (:network_class, :template_key, :based_on, CAST(:plan AS jsonb), :plan_digest, :graph_hash, 'PENDING',
            :idempotency_key, :body_hash, :proposed_by, :reason, :required, now() + make_interval(secs => :ttl_seconds))
    ON CONFLICT (network_class, idempotency_key) DO NOTHING
    RETURNING id::text
""")
_LOCK = text("""
    SELECT 1 FROM qtg.template_proposals
    WHERE id = CAST(:proposal_id AS uuid) AND network_class = :network_class
    FOR NO KEY UPDATE
""")
_READ = """
    SELECT p.id::text AS proposal_id, p.network_class, p.template_key, p.based_on, p.proposal_state AS state,
           p.plan AS document, p.plan_digest, p.graph_hash, p.body_hash, p.proposed_by, p.reason, p.required,
           p.created_at, p.expires_at, p.expires_at <= now() AS expired, p.decided_at,
           coalesce((SELECT array_agg(d.actor ORDER BY d.decided_at, d.id) FROM qtg.template_proposal_decisions d
                     WHERE d.proposal_id = p.id AND d.decision = 'approved'), '{}') AS approved_by,
           last.actor AS decided_by, last.reason AS decision_reason,
           (SELECT v.version FROM qtg.movement_plan_versions v WHERE v.id = p.plan_version_id) AS published_version
    FROM qtg.template_proposals p
    LEFT JOIN LATERAL (
        SELECT d.actor, d.reason FROM qtg.template_proposal_decisions d
        WHERE d.proposal_id = p.id AND p.proposal_state IN ('APPROVED', 'REJECTED')
        ORDER BY d.decided_at DESC, d.decision DESC, d.id DESC LIMIT 1) AS last ON true
    WHERE p.network_class = :network_class
"""
_ONE = text(f"{_READ} AND p.id = CAST(:proposal_id AS uuid)")
_BY_KEY = text(f"{_READ} AND p.idempotency_key = :key")
_LIST = text(f"""{_READ} AND (p.proposal_state = 'PENDING' OR NOT CAST(:pending AS boolean))
    ORDER BY p.created_at DESC, p.id LIMIT :most""")
_DECIDE = text("""
    INSERT INTO qtg.template_proposal_decisions (proposal_id, decision, actor, plan_digest, reason)
    VALUES (CAST(:proposal_id AS uuid), :decision, :actor, :plan_digest, :reason)
""")
_MOVE = text("""
    UPDATE qtg.template_proposals
    SET proposal_state = :state, plan_version_id = :plan_version_id, decided_at = now()
    WHERE id = CAST(:proposal_id AS uuid)
""")
_EXPIRE = text("""
    WITH due AS (
        SELECT id FROM qtg.template_proposals
        WHERE proposal_state = 'PENDING' AND expires_at <= now() AND network_class = :network_class
        ORDER BY expires_at, id
        LIMIT :batch
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    gone AS (
        UPDATE qtg.template_proposals p SET proposal_state = 'EXPIRED', decided_at = now()
        FROM due WHERE p.id = due.id
        RETURNING p.*
    ),
    deed AS (
        INSERT INTO qtg.audit_outbox (network_class, actor, action, subject_type, subject_id, details)
        SELECT gone.network_class, :actor, 'expire_template_proposal', 'template_proposal', gone.id::text,
               jsonb_build_object(
                   'template_key', gone.template_key, 'based_on', gone.based_on, 'plan_digest', gone.plan_digest,
                   'graph_hash', gone.graph_hash, 'expires_at', gone.expires_at, 'approvals',
                   (SELECT count(*) FROM qtg.template_proposal_decisions d
                    WHERE d.proposal_id = gone.id AND d.decision = 'approved') || ' of ' || gone.required)
        FROM gone
    )
    SELECT count(*) FROM gone
""")


async def insert_proposal(transaction: Transaction, new: NewProposal) -> str | None:
    """Store a proposal and give its id; None when its idempotency key is taken."""
    bound = {
        "network_class": new.network_class,
        "template_key": new.plan.template_key,
        "based_on": new.based_on,
        "plan": as_json(new.plan.model_dump(mode="json")),
        "plan_digest": plan_digest(new.plan),
        "graph_hash": graph_hash(new.plan),
        "idempotency_key": new.idempotency_key,
        "body_hash": new.body_hash(),
        "proposed_by": new.proposed_by,
        "reason": new.reason,
        "required": new.required,
        "ttl_seconds": new.ttl_seconds,
    }
    return (await transaction.execute(_INSERT, bound)).scalar_one_or_none()


async def find_proposal(transaction: Transaction, network_class: str, key: str) -> Proposal | None:
    """The proposal that stands under an idempotency key."""
    row = (await transaction.execute(_BY_KEY, {"network_class": network_class, "key": key})).mappings().one_or_none()
    return None if row is None else _proposal(dict(row))


async def read_proposal(
    transaction: Transaction, network_class: str, proposal_id: str, *, lock: bool = False
) -> Proposal:
    """A proposal as it stands; with `lock`, nobody else decides on it until the transaction ends. Raises `NotFound`."""
    which = {"network_class": network_class, "proposal_id": proposal_id}
    row = None
    if is_request_id(proposal_id):
        if lock:  # read by a later statement: one that waited for the lock does not see what was written meanwhile
            await transaction.execute(_LOCK, which)
        row = (await transaction.execute(_ONE, which)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no template proposal {proposal_id!r} in network class {network_class}")
    return _proposal(dict(row))


async def read_proposals(
    transaction: Transaction, network_class: str, *, pending: bool = True, most: int = 50
) -> list[Proposal]:
    """Proposals, newest first; `pending` = only those that may still be decided on."""
    asked = {"network_class": network_class, "pending": pending, "most": most}
    return [_proposal(dict(row)) for row in (await transaction.execute(_LIST, asked)).mappings()]


async def write_decision(
    transaction: Transaction, proposal: Proposal, decision: str, *, actor: str, reason: str
) -> None:
    """One person's word, `approved` or `rejected`, on a locked proposal and on exactly what it proposes."""
    bound = {"proposal_id": proposal.proposal_id, "decision": decision, "actor": actor, "reason": reason}
    await transaction.execute(_DECIDE, {**bound, "plan_digest": proposal.plan_digest})


async def move_proposal(
    transaction: Transaction, proposal: Proposal, state: ProposalState, *, plan_version_id: int | None = None
) -> None:
    """Bring a locked proposal to its end; an approved one points at the version that it became."""
    check_proposal_move(proposal.state, state)
    bound = {"proposal_id": proposal.proposal_id, "state": state, "plan_version_id": plan_version_id}
    await transaction.execute(_MOVE, bound)


async def expire_proposals(transaction: Transaction, network_class: str, *, actor: str, batch: int) -> int:
    """PENDING -> EXPIRED, audited, for up to `batch` whose window has closed and that nobody is deciding on."""
    bound = {"network_class": network_class, "actor": actor, "batch": batch}
    return int((await transaction.execute(_EXPIRE, bound)).scalar_one())


def _proposal(row: dict[str, Any]) -> Proposal:
    values = {**row, "state": ProposalState(row["state"]), "approved_by": tuple(row["approved_by"])}
    return Proposal(**values)
