"""CCIP sends in the database: what a lane records of each, and those that are old without a known end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.ccip_sends import OldSend, Resolution, SendState, SendVerdict, check_send_move, is_selector
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.domain.journal import AttemptOutcome
from qtg_dagster.domain.states import NodeState
from qtg_dagster.store.database import Transaction

_INSERT = text("""
    INSERT INTO qtg.ccip_send_intent
        (network_class, request_node_id, attempt_no, send_state, source_chain, destination_selector, router, sender,
         nonce)
    SELECT r.network_class, n.id, :attempt_no, 'INTENT', :source_chain, :destination_selector, :router, :sender,
           CAST(:nonce AS bigint)
    FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
    WHERE n.id = CAST(:request_node_id AS uuid)
    ON CONFLICT (request_node_id, attempt_no) DO UPDATE SET attempt_no = excluded.attempt_no
    RETURNING id, source_chain, destination_selector, router, sender, nonce
""")
_LOCK = text("""
    SELECT id, send_state, message_id, evidence_step_id FROM qtg.ccip_send_intent
    WHERE request_node_id = CAST(:request_node_id AS uuid) AND attempt_no = :attempt_no
    FOR UPDATE
""")
_SENT = text("""
    UPDATE qtg.ccip_send_intent
    SET send_state = 'SENT', tx_hash = :tx_hash, message_id = :message_id, attention = NULL,
        sent_at = CASE WHEN message_id IS NOT DISTINCT FROM :message_id THEN coalesce(sent_at, now()) ELSE now() END
    WHERE id = :id
""")
_RESOLVE = text("""
    UPDATE qtg.ccip_send_intent
    SET send_state = 'RESOLVED', resolution = :resolution, evidence_step_id = :evidence_step_id, attention = NULL,
        resolved_at = now()
    WHERE id = :id
""")
_STRAND = text("""
    UPDATE qtg.ccip_send_intent SET send_state = 'STRANDED', attention = :attention, stranded_at = now() WHERE id = :id
""")

# The outcome of its own attempt is written in the commit that ends its node, with the step that proves it.
_DUE = """
    FROM qtg.ccip_send_intent i
    JOIN qtg.movement_request_nodes n ON n.id = i.request_node_id
    LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = i.request_node_id AND a.attempt_no = i.attempt_no
    CROSS JOIN LATERAL (
        SELECT a.outcome IN ('NOT_SENT', 'REJECTED', 'FAILED', 'COMPLETED') AND a.outcome_step_id IS NOT NULL AS proven,
               coalesce(i.sent_at, i.intended_at) < now() - make_interval(secs => :max_age) AS old,
               coalesce(n.runner_id IN (SELECT runner_id FROM qtg.live_runners), false) AS being_worked
    ) AS known
    WHERE i.network_class = :network_class AND i.send_state <> 'RESOLVED'
      AND CASE WHEN i.send_state = 'STRANDED' THEN known.proven
               ELSE known.old AND (known.proven OR NOT known.being_worked) END
"""
_COUNT_DUE = text(f"SELECT count(*) {_DUE}")
_LOCK_DUE = text(f"""
    SELECT i.id, i.send_state, n.node_state, n.node_key, n.request_id::text AS request_id, i.attempt_no,
           known.being_worked, a.outcome, a.outcome_step_id, i.source_chain, i.destination_selector, i.router, i.sender,
           i.nonce, i.tx_hash, i.message_id, i.intended_at
    {_DUE} AND i.id > :after
    ORDER BY i.id
    LIMIT :batch
    FOR UPDATE OF i SKIP LOCKED
""")
_STRANDED = text("""
    SELECT id, request_node_id::text AS request_node_id, attention, stranded_at, message_id FROM qtg.ccip_send_intent
    WHERE network_class = :network_class AND send_state = 'STRANDED'
    ORDER BY stranded_at, id
    LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class SendIntent:
    """A send that is about to leave."""

    request_node_id: str
    attempt_no: int
    source_chain: str
    destination_selector: int
    router: str
    sender: str
    nonce: int | None = None


@dataclass(frozen=True, slots=True)
class DueSend:
    """A send that is old without a known end, under its lock."""

    id: int
    known: OldSend
    request_id: str
    node_key: str
    told: str  # where to look for it


@dataclass(frozen=True, slots=True)
class StrandedSend:
    """A send that a person should look for; `attention` says where."""

    id: int
    request_node_id: str
    attention: str
    stranded_at: datetime
    message_id: str | None


async def record_send_intent(transaction: Transaction, intent: SendIntent) -> int:
    """Write down a send before it leaves, in the transaction of its intent; the same again changes nothing.

    Raises `Conflict` for another send under the same node and attempt, `NotFound` for a node that is not there.
    """
    if not is_selector(intent.destination_selector):
        raise InvalidInput(
            "destination_selector", f"{intent.destination_selector} is none", "Give CCIP's 64-bit chain selector."
        )
    row = (await transaction.execute(_INSERT, asdict(intent))).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no node {intent.request_node_id}")
    stored = {name: value for name, value in row.items() if name != "id"}
    given = {name: getattr(intent, name) for name in stored}
    if {**stored, "destination_selector": int(stored["destination_selector"])} != given:
        raise Conflict(f"attempt {intent.attempt_no} of node {intent.request_node_id} has another CCIP send")
    return int(row["id"])


async def mark_sent(
    transaction: Transaction, request_node_id: str, attempt_no: int, *, tx_hash: str, message_id: str
) -> None:
    """The source chain has it. A chain that reorganised may give it another message id later.

    Raises `NotFound`, and `IllegalMove` for one that is RESOLVED.
    """
    row = await _lock(transaction, request_node_id, attempt_no)
    if row.send_state != SendState.SENT:
        check_send_move(SendState(row.send_state), SendState.SENT)
    await transaction.execute(_SENT, {"id": row.id, "tx_hash": tx_hash, "message_id": message_id})


async def resolve_send(
    transaction: Transaction, request_node_id: str, attempt_no: int, resolution: Resolution, *, evidence_step_id: int
) -> None:
    """What became of it, and the step that proves it; the same again changes nothing.

    Raises `NotFound`, and `IllegalMove` for one that is RESOLVED by other evidence.
    """
    row = await _lock(transaction, request_node_id, attempt_no)
    if row.send_state == SendState.RESOLVED and row.evidence_step_id == evidence_step_id:
        return
    check_send_move(SendState(row.send_state), SendState.RESOLVED)
    await _resolve(transaction, row.id, resolution, evidence_step_id)


async def count_due_sends(transaction: Transaction, network_class: str, *, max_age_seconds: float) -> int:
    """How many sends a pass over the old ones would change now."""
    bound = {"network_class": network_class, "max_age": float(max_age_seconds)}
    return int((await transaction.execute(_COUNT_DUE, bound)).scalar_one())


async def lock_due_sends(
    transaction: Transaction, network_class: str, *, max_age_seconds: float, after: int, batch: int
) -> list[DueSend]:
    """Those sends, by id, from the first above `after` on; ones that another holds are left out."""
    bound = {"network_class": network_class, "max_age": float(max_age_seconds), "after": after, "batch": batch}
    return [_due(row) for row in (await transaction.execute(_LOCK_DUE, bound)).mappings()]


async def write_verdict(transaction: Transaction, send: DueSend, found: SendVerdict) -> None:
    """Move a locked send by what its record says; raises `IllegalMove`."""
    check_send_move(send.known.state, found.to_state)
    if found.resolution is not None and found.evidence_step_id is not None:
        await _resolve(transaction, send.id, found.resolution, found.evidence_step_id)
    else:
        await transaction.execute(_STRAND, {"id": send.id, "attention": send.told})


async def stranded_sends(transaction: Transaction, network_class: str, *, most: int = 50) -> Sequence[StrandedSend]:
    """Sends that people should look for, longest first. For qtg_sender."""
    rows = (await transaction.execute(_STRANDED, {"network_class": network_class, "most": most})).mappings()
    return [StrandedSend(**row) for row in rows]


async def _resolve(transaction: Transaction, send_id: int, resolution: Resolution, evidence_step_id: int) -> None:
    await transaction.execute(_RESOLVE, {"id": send_id, "resolution": resolution, "evidence_step_id": evidence_step_id})


async def _lock(transaction: Transaction, request_node_id: str, attempt_no: int) -> Any:
    which = {"request_node_id": request_node_id, "attempt_no": attempt_no}
    row = (await transaction.execute(_LOCK, which)).one_or_none()
    if row is None:
        raise NotFound(f"attempt {attempt_no} of node {request_node_id} has no CCIP send")
    return row


def _due(row: Any) -> DueSend:
    known = OldSend(
        SendState(row["send_state"]),
        NodeState(row["node_state"]),
        row["being_worked"],
        AttemptOutcome(row["outcome"]) if row["outcome"] else None,
        row["outcome_step_id"],
    )
    return DueSend(row["id"], known, row["request_id"], row["node_key"], _where_to_look(row))


def _where_to_look(row: Any) -> str:
    """All that finds a message: on the source chain by its sender and nonce, in CCIP's explorer by its id."""
    message = row["message_id"]
    explorer = (
        f"https://ccip.chain.link/msg/{message}" if message else f"https://ccip.chain.link/ by sender {row['sender']}"
    )
    nonce = "unknown" if row["nonce"] is None else row["nonce"]
    transaction = f", transaction {row['tx_hash']}" if row["tx_hash"] else ""
    return (
        f"CCIP send of {row['node_key']} in movement {row['request_id']} (attempt {row['attempt_no']}, node "
        f"{row['node_state']}) has no known end since {row['intended_at']:%Y-%m-%d %H:%M:%S} UTC. Look on "
        f"{row['source_chain']} for nonce {nonce} of {row['sender']}{transaction}, sent to router {row['router']} for "
        f"chain selector {row['destination_selector']}, and at {explorer}. Nothing is sent again meanwhile"
    )
