"""Writing what happened to a claimed node: the move, its journal row and all that follows, in one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from qtg_dagster.domain.actions import Standing, allowed_actions
from qtg_dagster.domain.canonical import digest
from qtg_dagster.domain.errors import RiskControlViolated, StaleClaim
from qtg_dagster.domain.journal import CallbackEvent
from qtg_dagster.domain.progress import Advance
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, NodeState, RequestState, check_node_move
from qtg_dagster.domain.velocity import OVER_THE_LIMIT
from qtg_dagster.domain.work import NOTHING_FOLLOWS, Claim, Intent, Move, Work, consequences, is_consequential
from qtg_dagster.faults import FaultPoint, fault_point
from qtg_dagster.store.database import OnDatabase
from qtg_dagster.store.pool import Connection
from qtg_dagster.store.statements import as_json, native

_WOKEN_BY = {NodeState.SUBMITTED: "observe", NodeState.UNKNOWN: "recover", NodeState.READY: "dispatch"}


class Moves(OnDatabase):
    """Intents and outcomes, many in one commit."""

    async def record_intents(self, intents: Sequence[tuple[Work, Intent]]) -> list[bool]:
        """Commit READY -> SUBMITTING of nodes of different movements together; says of each whether it was.

        Waits for nobody: what was not written may not be ours any more, or its movement is held by somebody at this
        moment; `record_intent` tells which. Raises `RiskControlViolated`, and has written none, when one of them would
        leave a velocity limit.
        """
        async with self._database.connection() as connection:
            fault_point(FaultPoint.PREPARE_COMMIT)
            with _limits_kept():
                found = await _write_intents(connection, intents)
        return [found[work.claim.node_id]["moved"] for work, _ in intents]

    async def record_intent(self, work: Work, intent: Intent) -> None:
        """Commit READY -> SUBMITTING of this node alone, once nobody else holds its movement.

        Raises `StaleClaim` when the node or its nonce is no longer ours, `RiskControlViolated` over a velocity limit.
        """
        claim, nonce = work.claim, intent.prepared.nonce_reservation
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(native("lock_movements"), {"request_ids": [claim.request_id]})
            fault_point(FaultPoint.PREPARE_COMMIT)
            with _limits_kept():
                found = (await _write_intents(connection, [(work, intent)]))[claim.node_id]
        if nonce is not None and not found["nonce_held"]:
            raise StaleClaim(f"nonce {nonce.nonce} of {nonce.sender} is no longer reserved for node {claim.node_id}")
        if found["stopped"]:
            raise StaleClaim(f"node {claim.node_id} is held back by a breaker")
        if not found["moved"]:
            raise StaleClaim(f"node {claim.node_id} is no longer ours to submit")

    async def record_moves(self, moves: Sequence[tuple[Work, Move]]) -> list[Advance | StaleClaim]:
        """Commit moves of nodes of different movements together; gives each one's consequences, or why it was fenced.

        At most one move a movement: what follows from a second one depends on the first. Moves that mean something for
        their movement are decided from where its nodes stand under its lock.
        """
        for work, move in moves:
            if move.to_state is not work.node_state:
                check_node_move(work.node_state, move.to_state)
        weighty = [work.claim.request_id for work, move in moves if is_consequential(work, move)]
        async with self._database.connection() as connection:
            if weighty:
                async with connection.transaction():
                    stand = await _lock(connection, weighty)
                    found = [_follows(work, move, stand) for work, move in moves]
                    moved = await _write(connection, moves, found)
                    await _audit(connection, [each for each in moves if each[0].claim.node_id in moved])
            else:
                found = [NOTHING_FOLLOWS] * len(moves)
                moved = await _write(connection, moves, found)
            for work, move in moves:
                if work.claim.node_id not in moved:
                    await connection.execute(native("journal_fenced"), _fenced(work.claim, move))
        return [
            advance if work.claim.node_id in moved else _stale(work, move)
            for (work, move), advance in zip(moves, found, strict=True)
        ]


@contextmanager
def _limits_kept() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate != OVER_THE_LIMIT:
            raise
        problem = error.diag.message_primary or "the limit is used up"
        raise RiskControlViolated(
            "velocity_limit", problem, "Wait for the next day (UTC), or have the limit raised."
        ) from error


async def _audit(connection: Connection, moves: Sequence[tuple[Work, Move]]) -> None:
    for work, move in moves:
        if move.audited:
            refusal = {"node_key": work.node.node_key, "error_code": move.error_code, "reason": move.error_message}
            bound = {"request_id": work.claim.request_id, "details": as_json(redact(refusal))}
            await connection.execute(native("audit_refusal"), bound)


async def _write_intents(connection: Connection, intents: Sequence[tuple[Work, Intent]]) -> dict[str, dict[str, Any]]:
    """Write what can be written now; gives node id -> {moved, nonce_held, stopped}."""
    items = [_intent_item(work.claim, intent) for work, intent in intents]
    rows = await connection.execute(native("record_intents"), {"intents": as_json(items)})
    return {row["node_id"]: row for row in await rows.fetchall()}


def _intent_item(claim: Claim, intent: Intent) -> dict[str, Any]:
    prepared = intent.prepared
    nonce = prepared.nonce_reservation
    return {
        "request_id": claim.request_id,
        "node_id": claim.node_id,
        "runner_id": claim.runner_id,
        "claim_epoch": claim.claim_epoch,
        "attempt_no": intent.attempt_no,
        "idempotency_key": intent.idempotency_key,
        "prepared": prepared.model_dump_json(),
        "payload_hash": prepared.payload_hash,
        "provider_refs": prepared.provider_refs,
        "signer_key": intent.signer_key,
        "signer_address": intent.signer_address,
        "ledger": intent.ledger,
        "facts": _intent_facts(intent),
        "nonce_chain": nonce.chain if nonce else None,
        "nonce_sender": nonce.sender if nonce else None,
        "nonce": nonce.nonce if nonce else None,
    }


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


_Standing = dict[str, tuple[RequestState, dict[str, NodeState]]]


async def _lock(connection: Connection, request_ids: list[str]) -> _Standing:
    """Lock movements, and read where they and their nodes stand."""
    which = {"request_ids": request_ids}
    locked = await (await connection.execute(native("lock_movements"), which)).fetchall()
    nodes = await (await connection.execute(native("read_many_node_states"), which)).fetchall()
    states = {row["request_id"]: json.loads(row["node_states"]) for row in nodes}
    return {
        row["request_id"]: (
            RequestState(row["request_state"]),
            {key: NodeState(state) for key, state in states[row["request_id"]].items()},
        )
        for row in locked
    }


def _follows(work: Work, move: Move, stand: _Standing) -> Advance:
    if not is_consequential(work, move):
        return NOTHING_FOLLOWS
    return consequences(work, move, *stand[work.claim.request_id])


async def _write(
    connection: Connection, moves: Sequence[tuple[Work, Move]], found: Sequence[Advance]
) -> frozenset[str]:
    """Write the moves; returns the ids of the nodes that were still ours to move."""
    wake = {kind for (work, move), advance in zip(moves, found, strict=True) for kind in _wakes(work, move, advance)}
    items = [_item(work, move, advance) for (work, move), advance in zip(moves, found, strict=True)]
    bound = {"moves": as_json(items), "wake": sorted(wake)}
    row = await (await connection.execute(native("move_nodes"), bound)).fetchone()
    return frozenset((row and row["moved"]) or ())


def _wakes(work: Work, move: Move, follows: Advance) -> set[str]:
    changed = move.to_state is not work.node_state
    kinds = {_WOKEN_BY[move.to_state]} if changed and move.to_state in _WOKEN_BY else set()
    return kinds | {"dispatch"} if follows.ready else kinds


def _item(work: Work, move: Move, follows: Advance) -> dict[str, Any]:
    claim = work.claim
    facts = redact(dict(move.facts))
    facts_digest = digest("qtg.facts.v1", {"state": move.to_state, "facts": facts})
    state = follows.request_state
    return {
        "node_id": claim.node_id,
        "request_id": claim.request_id,
        "node_key": work.node.node_key,
        "runner_id": claim.runner_id,
        "claim_epoch": claim.claim_epoch,
        "from_state": work.node_state,
        "to_state": move.to_state,
        "step_kind": move.step_kind,
        "facts": facts,
        "facts_digest": facts_digest,
        # A look that saw nothing new leaves no row: hours of polling would bury what happened.
        "journaled": move.to_state is not work.node_state or facts_digest != work.facts_digest,
        "provider_refs": dict(move.provider_refs),
        "artifacts": dict(move.artifacts),
        "error_code": move.error_code,
        "error_message": move.error_message,
        "look_after": move.look_after,
        "keep_key": move.to_state in (NodeState.SUBMITTING, NodeState.UNKNOWN),
        "attempt_outcome": move.attempt_outcome,
        "release_nonce": move.release_nonce,
        "ready_keys": list(follows.ready) or None,
        "request_state": state,
        "request_finished": state in FINAL_REQUEST_STATES,
        "callbacks": _callbacks(work, move, follows),
    }


def _callbacks(work: Work, move: Move, follows: Advance) -> list[dict[str, Any]]:
    about = {"request_id": work.claim.request_id, "node_key": work.node.node_key}
    events: list[tuple[CallbackEvent, dict[str, Any]]] = []
    if follows.ready:
        events.append((CallbackEvent.FRONTIER_ADVANCED, {**about, "frontier": list(follows.ready)}))
    state = follows.request_state
    if state is not None:
        events.append((CallbackEvent.REQUEST_STATE_CHANGED, {**about, "request_state": state}))
    if state is RequestState.MANUAL_INTERVENTION:
        attention = {
            **about,
            "node_state": move.to_state,
            "error_code": move.error_code,
            "error_message": move.error_message,
            "evidence": redact(dict(move.facts)),
            "allowed_actions": _allowed_actions(work, move),
        }
        events.append((CallbackEvent.REQUEST_ATTENTION, attention))
    return [{"event_type": kind, "payload": payload} for kind, payload in events]


def _allowed_actions(work: Work, move: Move) -> list[str]:
    states = {**work.node_states, work.node.node_key: move.to_state}
    standing = Standing(work.plan, RequestState.MANUAL_INTERVENTION, states, adopting=move.adopting)
    return [str(each) for each in allowed_actions(standing)]


def _fenced(claim: Claim, move: Move) -> dict[str, Any]:
    return {
        "node_id": claim.node_id,
        "runner_id": claim.runner_id,
        "claim_epoch": claim.claim_epoch,
        "facts": as_json({"would_be": move.to_state, "facts": redact(dict(move.facts))}),
    }


def _stale(work: Work, move: Move) -> StaleClaim:
    return StaleClaim(f"node {work.claim.node_id} was taken over; its {move.step_kind} changed nothing")
