"""Writing what happened to a claimed node: the move, its journal row and all that follows, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from qtg_dagster.domain.canonical import digest
from qtg_dagster.domain.contract import PreparedAction
from qtg_dagster.domain.errors import StaleClaim
from qtg_dagster.domain.journal import AttemptOutcome, CallbackEvent, StepKind
from qtg_dagster.domain.progress import Advance, advance_after_completion
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, REQUEST_MOVES, NodeState, RequestState, check_node_move
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.claims import Claim
from qtg_dagster.store.database import Database
from qtg_dagster.store.statements import as_json, statement
from qtg_dagster.store.work import Work

#: Moves after which the whole movement is looked at again; READY, because what never left no longer holds back FAILED.
_CONSEQUENTIAL = frozenset({NodeState.COMPLETED, NodeState.FAILED, NodeState.UNKNOWN, NodeState.READY})
_WOKEN_BY = {NodeState.SUBMITTED: "observe", NodeState.UNKNOWN: "recover", NodeState.READY: "dispatch"}


@dataclass(frozen=True, slots=True)
class Intent:
    """What is written before a submit."""

    prepared: PreparedAction
    attempt_no: int
    idempotency_key: str
    signer_key: str | None = None
    signer_address: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One node's change of state, or a look that changed nothing, with the facts that led to it."""

    to_state: NodeState
    step_kind: StepKind
    facts: Mapping[str, Any]
    provider_refs: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    error_code: str | None = None
    error_message: str | None = None
    look_after: float | None = None
    attempt_outcome: AttemptOutcome | None = None
    release_nonce: bool = False


async def record_intent(database: Database, work: Work, intent: Intent) -> None:
    """Commit READY -> SUBMITTING; raises `StaleClaim` when the node or its nonce is no longer ours."""
    claim, prepared = work.claim, intent.prepared
    nonce = prepared.nonce_reservation
    async with database.transaction() as transaction:
        await transaction.execute(statement("lock_movement"), {"request_id": claim.request_id})
        row = (
            await transaction.execute(
                statement("record_intent"),
                {
                    "request_id": claim.request_id,
                    "node_id": claim.node_id,
                    "runner_id": claim.runner_id,
                    "claim_epoch": claim.claim_epoch,
                    "attempt_no": intent.attempt_no,
                    "idempotency_key": intent.idempotency_key,
                    "prepared": prepared.model_dump_json(),
                    "payload_hash": prepared.payload_hash,
                    "provider_refs": as_json(prepared.provider_refs),
                    "signer_key": intent.signer_key,
                    "signer_address": intent.signer_address,
                    "facts": as_json(_intent_facts(intent)),
                    "nonce_chain": nonce.chain if nonce else None,
                    "nonce_sender": nonce.sender if nonce else None,
                    "nonce": nonce.nonce if nonce else None,
                },
            )
        ).one()
        if row.moved != 1:
            raise StaleClaim(f"node {claim.node_id} is no longer ours to submit")
        if nonce is not None and row.bound != 1:
            raise StaleClaim(f"nonce {nonce.nonce} of {nonce.sender} is no longer reserved for node {claim.node_id}")
        fault_point(FaultPoint.PREPARE_COMMIT)


def _intent_facts(intent: Intent) -> dict[str, Any]:
    prepared = intent.prepared
    facts = {
        "action_type": prepared.action_type,
        "payload_format": prepared.payload_format,
        "payload_hash": prepared.payload_hash,
        "provider_refs": redact(prepared.provider_refs),
        "expires_at": prepared.expires_at.isoformat() if prepared.expires_at else None,
        "signer_key": intent.signer_key,
    }
    return {key: value for key, value in facts.items() if value is not None}


async def record_move(database: Database, work: Work, move: Move) -> Advance:
    """Commit a move and its consequences; returns them.

    A write by a runner that lost the node changes nothing, is journaled as fenced, and raises `StaleClaim`.
    """
    if move.to_state is not work.node_state:
        check_node_move(work.node_state, move.to_state)
    consequences = Advance(ready=(), request_state=None)
    async with database.transaction() as transaction:
        if move.to_state in _CONSEQUENTIAL and move.to_state is not work.node_state:
            consequences = await _consequences(transaction, work, move)
        row = (await transaction.execute(statement("move_node"), _bound(work, move, consequences))).one()
        moved = row.moved == 1
    if not moved:
        await _journal_fenced(database, work.claim, move)
        raise StaleClaim(f"node {work.claim.node_id} was taken over; its {move.step_kind} changed nothing")
    return consequences


async def _consequences(transaction: AsyncConnection, work: Work, move: Move) -> Advance:
    """Lock the movement and derive what the move means for it, from where the nodes stand under the lock.

    A state that the movement cannot go to from where it is (it waits for a person already) is not news.
    """
    which = {"request_id": work.claim.request_id}
    current = RequestState((await transaction.execute(statement("lock_movement"), which)).scalar_one())
    found_states = (await transaction.execute(statement("read_node_states"), which)).scalar_one()
    states = {key: NodeState(state) for key, state in found_states.items()}
    states[work.node.node_key] = move.to_state
    found = advance_after_completion(work.plan, states)
    news = found.request_state in REQUEST_MOVES[current]
    return Advance(ready=found.ready, request_state=found.request_state if news else None)


def _bound(work: Work, move: Move, consequences: Advance) -> dict[str, Any]:
    claim = work.claim
    facts = redact(dict(move.facts))
    facts_digest = digest("qtg.facts.v1", {"state": move.to_state, "facts": facts})
    changed = move.to_state is not work.node_state
    state = consequences.request_state
    wake = {_WOKEN_BY[move.to_state]} if changed and move.to_state in _WOKEN_BY else set()
    if consequences.ready:
        wake.add("dispatch")
    return {
        "node_id": claim.node_id,
        "node_key": work.node.node_key,
        "runner_id": claim.runner_id,
        "claim_epoch": claim.claim_epoch,
        "from_state": work.node_state,
        "to_state": move.to_state,
        "step_kind": move.step_kind,
        "facts": as_json(facts),
        "facts_digest": facts_digest,
        # A look that saw nothing new leaves no row: hours of polling would bury what happened.
        "journaled": changed or facts_digest != work.facts_digest,
        "provider_refs": as_json(dict(move.provider_refs)),
        "artifacts": as_json(dict(move.artifacts)),
        "error_code": move.error_code,
        "error_message": move.error_message,
        "look_after": move.look_after,
        "keep_key": move.to_state in (NodeState.SUBMITTING, NodeState.UNKNOWN),
        "attempt_outcome": move.attempt_outcome,
        "release_nonce": move.release_nonce,
        "ready_keys": list(consequences.ready),
        "frontier": list(consequences.ready) if consequences.ready else None,
        "request_state": state,
        "request_finished": state in FINAL_REQUEST_STATES,
        "callbacks": as_json(_callbacks(work, move, consequences)),
        "wake": sorted(wake),
    }


def _callbacks(work: Work, move: Move, consequences: Advance) -> list[dict[str, Any]]:
    about = {"request_id": work.claim.request_id, "node_key": work.node.node_key}
    events: list[tuple[CallbackEvent, dict[str, Any]]] = []
    if consequences.ready:
        events.append((CallbackEvent.FRONTIER_ADVANCED, {**about, "frontier": list(consequences.ready)}))
    state = consequences.request_state
    if state is not None:
        events.append((CallbackEvent.REQUEST_STATE_CHANGED, {**about, "request_state": state}))
    if state is RequestState.MANUAL_INTERVENTION:
        attention = {
            **about,
            "node_state": move.to_state,
            "error_code": move.error_code,
            "error_message": move.error_message,
            "evidence": redact(dict(move.facts)),
            "allowed_actions": _allowed_actions(move.to_state),
        }
        events.append((CallbackEvent.REQUEST_ATTENTION, attention))
    return [{"event_type": kind, "payload": payload} for kind, payload in events]


def _allowed_actions(state: NodeState) -> list[str]:
    return ["resume"] if state is NodeState.UNKNOWN else ["retry", "cancel"]


async def _journal_fenced(database: Database, claim: Claim, move: Move) -> None:
    async with database.transaction() as transaction:
        await transaction.execute(
            statement("journal_fenced"),
            {
                "node_id": claim.node_id,
                "runner_id": claim.runner_id,
                "claim_epoch": claim.claim_epoch,
                "facts": as_json({"would_be": move.to_state, "facts": redact(dict(move.facts))}),
            },
        )
