"""What a person's decision does to the nodes of a locked movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from qtg_dagster.domain.journal import CallbackEvent, StepKind
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.requests import Decision, LockedRequest, NodeMove
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, NodeState, check_request_move
from qtg_dagster.store.database import InTransaction
from qtg_dagster.store.sessions import execute_and_commit
from qtg_dagster.store.statements import as_json, native, statement


def _as_item(move: NodeMove) -> dict[str, Any]:
    return {
        "node_key": move.node_key,
        "to_state": move.to_state,
        "step_kind": move.step_kind,
        "facts": redact(dict(move.facts)),
        "actor": move.actor,
        "refs": dict(move.refs),
    }


def _parts(request: LockedRequest, moves: Sequence[NodeMove]) -> dict[str, Any]:
    """The parameters of `decide.sql` for moves alone."""
    return {
        "request_id": request.request_id,
        "moves": as_json([_as_item(move) for move in moves]),
        "state": None,
        "finished": False,
        "frontier": None,
        "callback_url": request.callback_url,
        "callbacks": "[]",
        "approval": None,
        "deed": None,
        "wake": ["dispatch"] if any(move.to_state is NodeState.READY for move in moves) else [],
    }


class Decided(InTransaction):
    """What a person's decision does to a locked movement."""

    async def decide(self, request: LockedRequest, decision: Decision) -> None:
        """Write a decision about a locked movement in one statement: moves, journal, approval, callbacks and audit.

        The last word of its transaction: one of our own commits here.
        """
        state = decision.state
        if state is not None:
            check_request_move(request.request_state, state)
        approval = {
            "decision": decision.approval,
            "actor": decision.actor,
            "reason": decision.reason,
            "compiled_plan_hash": request.compiled_plan_hash,
            "approval_digest": request.approval_digest,
        }
        deed = {
            "network_class": request.network_class,
            "actor": decision.actor,
            "action": decision.action,
            "details": redact(dict(decision.details)),
        }
        news = {"request_id": request.request_id, "request_state": state}
        told = {"event_type": CallbackEvent.REQUEST_STATE_CHANGED, "payload": news}
        bound = {
            **_parts(request, decision.moves),
            "state": state,
            "finished": state in FINAL_REQUEST_STATES,
            "frontier": list(decision.frontier) if decision.frontier is not None else None,
            "callbacks": as_json([told] if state else []),
            "approval": as_json(approval) if decision.approval else None,
            "deed": as_json(deed),
        }
        if self._ours:
            await execute_and_commit(self._tx, native("decide"), bound)
        else:
            await self._tx.execute(statement("decide"), bound)

    async def move_nodes(
        self,
        request: LockedRequest,
        keys: Sequence[str],
        state: NodeState,
        *,
        step_kind: StepKind,
        facts: Mapping[str, Any],
        actor: str | None = None,
        refs: Mapping[str, Any] | None = None,
    ) -> None:
        """Move nodes of a locked movement by a person's decision or as its consequence; the journal says which."""
        if keys:
            moves = [NodeMove(key, state, step_kind, facts, actor, refs or {}) for key in keys]
            await self._tx.execute(statement("decide"), _parts(request, moves))

    async def wake(self, *kinds: str) -> None:
        """Let the drains of these kinds look at once when this transaction commits."""
        for kind in kinds:
            await self._tx.execute(text("SELECT pg_notify('qtg_wake', :kind)"), {"kind": kind})
