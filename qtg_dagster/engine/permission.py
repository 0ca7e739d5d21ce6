"""Whether people may do what they ask for now: the rule of `domain.actions` over what is stored."""

from __future__ import annotations

from qtg_dagster.domain.actions import Action, Allowed, Standing, allowed_actions, objection
from qtg_dagster.domain.errors import ApprovalExpired, Conflict, NotFound
from qtg_dagster.domain.plans import Plan
from qtg_dagster.domain.requests import LockedRequest
from qtg_dagster.domain.states import RequestState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.ports import Decisions
from qtg_dagster.store.database import Transaction


async def lock_for(
    engine: Engine, tx: Decisions, request_id: str, action: Action, node_key: str | None = None
) -> LockedRequest:
    """Lock a movement for an action that may be taken now.

    Raises `NotFound`, `ApprovalExpired`, or `Conflict` with the reason and with what can be done instead.
    """
    request = await tx.lock_request(request_id, engine.settings.network_class)
    check_permitted(standing_of(engine, request), request, action, node_key)
    return request


def check_permitted(standing: Standing, request: LockedRequest, action: Action, node_key: str | None = None) -> None:
    """Raise unless the action may be taken on the movement as it stands; see `lock_for`."""
    if node_key is not None and node_key not in standing.node_states:
        known = ", ".join(standing.node_states)
        raise NotFound(f"movement {request.request_id} has no node {node_key!r}; it has {known}")
    problem = objection(standing, action, node_key)
    if problem is None:
        return
    message = f"movement {request.request_id}: {problem}"
    pending = standing.request_state is RequestState.PENDING_APPROVAL
    expired = standing.request_state is RequestState.EXPIRED or (standing.expired and pending)
    if expired and action in (Action.APPROVE, Action.REJECT):
        raise ApprovalExpired(f"{message} ({request.expires_at})")
    possible = ", ".join(map(str, allowed_actions(standing))) or "nothing"
    raise Conflict(f"{message}. Possible now: {possible}")


def standing_of(engine: Engine, request: LockedRequest) -> Standing:
    """All that decides what may be done with this movement."""
    return Standing(
        plan=request.stored.plan,
        request_state=request.request_state,
        node_states=request.node_states,
        expired=request.expired,
        open_attempts=request.open_attempts,
        adopting=_adopting(engine, request.stored.plan),
    )


async def read_allowed_actions(engine: Engine, transaction: Transaction, request_id: str) -> tuple[Allowed, ...]:
    """What may be done with a movement now, to be shown; raises `NotFound`."""
    async with engine.store.deciding(transaction) as tx:
        request = await tx.read_request(request_id, engine.settings.network_class)
    return allowed_actions(standing_of(engine, request))


def _adopting(engine: Engine, plan: Plan) -> frozenset[str]:
    able = engine.executors.adopting
    return frozenset(node.node_key for node in plan.nodes if node.executor_key in able)
