"""A movement as its rows tell it, and a decision as `decide.sql` takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from qtg_dagster.domain.journal import CallbackEvent
from qtg_dagster.domain.redaction import redact
from qtg_dagster.domain.requests import Decision, LockedRequest, NodeMove
from qtg_dagster.domain.states import FINAL_REQUEST_STATES, NodeState, RequestState, check_request_move
from qtg_dagster.store.plan_documents import stored_plan
from qtg_dagster.store.statements import as_json

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_request_id(text: str) -> bool:
    """Whether it has the form of a movement's id."""
    return _UUID.fullmatch(text) is not None


def unknown_request(request_id: str, network_class: str) -> str:
    """What is said of an id that no movement has."""
    return f"there is no movement request {request_id!r} in network class {network_class}"


def request_of(row: Mapping[str, Any]) -> LockedRequest:
    """The movement of a row of `read_request.sql`."""
    open_attempts: dict[str, list[tuple[int, str]]] = {}
    for node_key, attempt_no, outcome in row["open_attempts"] or ():
        open_attempts.setdefault(node_key, []).append((attempt_no, outcome))
    return LockedRequest(
        request_id=row["request_id"],
        network_class=row["network_class"],
        request_state=RequestState(row["request_state"]),
        intent=row["intent"],
        input_params=row["input_params"],
        resolved_bindings=row["resolved_bindings"],
        compiled_plan_hash=row["compiled_plan_hash"],
        approval_digest=row["approval_digest"],
        expires_at=row["expires_at"],
        expired=bool(row["expired"]),
        callback_url=row["callback_url"],
        requested_by=row["requested_by"],
        stored=stored_plan(row),
        node_states={key: NodeState(state) for key, state in row["node_states"].items()},
        open_attempts=open_attempts,
        approved_by=tuple(row["approved_by"] or ()),
        down=tuple(row["down"] or ()),
    )


def move_parameters(request: LockedRequest, moves: Sequence[NodeMove]) -> dict[str, Any]:
    """The parameters of `decide.sql` for moves alone."""
    return {
        "request_id": request.request_id,
        "pending": False,
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


def decision_parameters(request: LockedRequest, decision: Decision) -> dict[str, Any]:
    """The parameters of `decide.sql` for a decision; raises `IllegalMove`."""
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
        "details": redact({**plan_decided_on(request), **decision.details}),
    }
    news = {"request_id": request.request_id, "request_state": state}
    told = {"event_type": CallbackEvent.REQUEST_STATE_CHANGED, "payload": news}
    return {
        **move_parameters(request, decision.moves),
        "state": state,
        "finished": state in FINAL_REQUEST_STATES,
        "frontier": list(decision.frontier) if decision.frontier is not None else None,
        "callbacks": as_json([told] if state else []),
        "approval": as_json(approval) if decision.approval else None,
        "deed": as_json(deed),
    }


def plan_decided_on(request: LockedRequest) -> dict[str, str]:
    """What every entry about a movement says: which plan, under which limits."""
    return {"compiled_plan_hash": request.compiled_plan_hash, "approval_digest": request.approval_digest}


def _as_item(move: NodeMove) -> dict[str, Any]:
    return {
        "node_key": move.node_key,
        "to_state": move.to_state,
        "step_kind": move.step_kind,
        "facts": redact(dict(move.facts)),
        "actor": move.actor,
        "refs": dict(move.refs),
    }
