"""What is shown as allowed is what the operations accept, for every state of a movement and its nodes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from qtg_dagster.domain.actions import NODE_ACTIONS, REQUEST_ACTIONS, Action, Standing, allowed_actions, objection
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.domain.states import NODE_MOVES, REQUEST_MOVES, NodeState, RequestState
from qtg_dagster.engine.interventions import resume_movement, retry_node, skip_node
from qtg_dagster.engine.permission import read_allowed_actions
from qtg_dagster.engine.requests import approve_movement, cancel_movement, complete_manual_node, reject_movement
from tests.engine.desk import Desk
from tests.engine.plans import manual, node, plan_of

PLAN = plan_of(node("first"), manual("manual_check"), edges=(("first", "manual_check"),))
#: What each action turns its node, or its movement, into.
LEADS_TO = {
    Action.RETRY: NodeState.READY,
    Action.COMPLETE: NodeState.COMPLETED,
    Action.SKIP: NodeState.SKIPPED,
    Action.APPROVE: RequestState.APPROVED,
    Action.REJECT: RequestState.REJECTED,
    Action.CANCEL: RequestState.CANCELLED,
    Action.RESUME: RequestState.EXECUTING,
}


@pytest.mark.parametrize("request_state", RequestState)
@pytest.mark.parametrize("first", NodeState)
@pytest.mark.parametrize("check", [state for state in NodeState if state not in ("SUBMITTING", "UNKNOWN")])
def test_an_allowed_action_is_a_legal_move(request_state: RequestState, first: NodeState, check: NodeState) -> None:
    states = {"first": first, "manual_check": check}
    standing = Standing(PLAN, request_state, states, adopting=frozenset({"first"}))
    for allowed in allowed_actions(standing):
        target = LEADS_TO.get(allowed.action)
        if isinstance(target, NodeState):
            assert target in NODE_MOVES[states[str(allowed.node_key)]]
        elif isinstance(target, RequestState):
            assert target in REQUEST_MOVES[request_state]


@pytest.mark.parametrize("state", ["COMPLETED", "REJECTED", "EXPIRED", "CANCELLED"])
def test_nothing_is_done_to_a_movement_that_has_ended(state: str) -> None:
    states = {"first": NodeState.FAILED, "manual_check": NodeState.READY}
    assert allowed_actions(Standing(PLAN, RequestState(state), states, adopting=frozenset({"first"}))) == ()


@pytest.mark.parametrize("first", ["SUBMITTING", "SUBMITTED", "OBSERVING", "UNKNOWN"])
def test_what_may_have_moved_is_neither_called_off_nor_done_again(first: str) -> None:
    states = {"first": NodeState(first), "manual_check": NodeState.BLOCKED}
    for request_state in RequestState:
        standing = Standing(PLAN, request_state, states)
        assert objection(standing, Action.CANCEL) is not None
        assert objection(standing, Action.RETRY, "first") is not None


@pytest.mark.parametrize("action", [Action.RETRY, Action.ADOPT])
def test_a_failed_node_with_an_open_attempt_is_left_alone(action: Action) -> None:
    states = {"first": NodeState.FAILED, "manual_check": NodeState.BLOCKED}
    there = {"adopting": frozenset({"first"})}
    assert objection(Standing(PLAN, RequestState.FAILED, states, **there), action, "first") is None  # type: ignore[arg-type]
    still = Standing(PLAN, RequestState.FAILED, states, open_attempts={"first": [(1, "UNKNOWN")]}, **there)  # type: ignore[arg-type]
    assert "might move the money twice" in str(objection(still, action, "first"))


#: Where a movement can be found: its state, that of `first`, that of `manual_check`.
FOUND = {
    "waiting for approval": ("PENDING_APPROVAL", "BLOCKED", "BLOCKED"),
    "approved": ("APPROVED", "READY", "BLOCKED"),
    "sent": ("EXECUTING", "SUBMITTED", "BLOCKED"),
    "lost": ("EXECUTING", "UNKNOWN", "BLOCKED"),
    "failed": ("FAILED", "FAILED", "BLOCKED"),
    "waiting for a person": ("WAITING_MANUAL_ACTION", "COMPLETED", "READY"),
    "stopped": ("MANUAL_INTERVENTION", "UNKNOWN", "BLOCKED"),
    "cancelled": ("CANCELLED", "CANCELLED", "CANCELLED"),
}
EXPECTED = {
    "waiting for approval": {"approve", "reject", "cancel"},
    "approved": {"cancel", "skip manual_check"},
    "sent": {"skip manual_check"},
    "lost": {"skip manual_check"},
    "failed": {"cancel", "retry first", "skip manual_check"},
    "waiting for a person": {"cancel", "complete manual_check", "skip manual_check"},
    "stopped": {"resume", "skip manual_check"},
    "cancelled": set(),
}


@pytest.mark.parametrize("found", FOUND)
async def test_operations_accept_exactly_what_is_shown_as_allowed(desk: Desk, found: str) -> None:
    await _reach(desk, found)
    async with desk.engine.database.transaction() as tx:
        shown = {str(each) for each in await read_allowed_actions(desk.engine, tx, desk.request_id)}
    assert shown == EXPECTED[found]
    for action in (*REQUEST_ACTIONS, *NODE_ACTIONS):
        if action is Action.ADOPT:
            continue  # no executor of this plan can
        for key in ("first", "manual_check") if action in NODE_ACTIONS else (None,):
            name = f"{action} {key}" if key else str(action)
            assert await _accepted(desk, action, key) == (name in shown), name


async def _accepted(desk: Desk, action: Action, node_key: str | None) -> bool:
    """Whether the operation goes through; its transaction is rolled back either way."""
    async with desk.engine.database.session() as session:
        who = {"actor": "heidi", "transaction": session}
        deeds: dict[Action, Callable[[], Awaitable[None]]] = {
            Action.APPROVE: lambda: approve_movement(desk.engine, desk.request_id, **who),  # type: ignore[arg-type]
            Action.REJECT: lambda: reject_movement(desk.engine, desk.request_id, reason="r", **who),  # type: ignore[arg-type]
            Action.CANCEL: lambda: cancel_movement(desk.engine, desk.request_id, reason="r", **who),  # type: ignore[arg-type]
            Action.RESUME: lambda: resume_movement(desk.engine, desk.request_id, reason="r", **who),  # type: ignore[arg-type]
            Action.RETRY: lambda: retry_node(desk.engine, desk.request_id, str(node_key), reason="r", **who),  # type: ignore[arg-type]
            Action.SKIP: lambda: skip_node(desk.engine, desk.request_id, str(node_key), reason="r", **who),  # type: ignore[arg-type]
            Action.COMPLETE: lambda: complete_manual_node(
                desk.engine,
                desk.request_id,
                str(node_key),
                note="n",
                **who,  # type: ignore[arg-type]
            ),
        }
        try:
            await deeds[action]()
        except Conflict:
            return False
        finally:
            await session.rollback()
        return True


async def _reach(desk: Desk, found: str) -> None:
    request_state, first, check = FOUND[found]
    if found == "waiting for approval":
        await desk.create(PLAN)
        return
    await desk.begin(PLAN)
    if found == "failed":
        desk.will("submit", "first", ResultStatus.REJECTED)
    if found in ("lost", "stopped"):
        desk.provider.will("submit", "first", TimeoutError("reply lost"))
    if found == "cancelled":
        await cancel_movement(desk.engine, desk.request_id, actor="heidi", reason="stop")
    elif found != "approved":
        await desk.dispatch()
    if found == "waiting for a person":
        await desk.observe()
    if found == "stopped":
        await desk.sql("UPDATE qtg.movement_requests SET request_state = 'MANUAL_INTERVENTION'")
    assert await desk.request_state() == request_state
    assert await desk.states() == {"first": first, "manual_check": check}
