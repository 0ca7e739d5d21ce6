"""What was not approved in time is called off."""

from __future__ import annotations

import structlog

from qtg_dagster.domain.journal import StepKind
from qtg_dagster.domain.requests import Decision, LockedRequest
from qtg_dagster.domain.states import RequestState
from qtg_dagster.engine.parts import Engine
from qtg_dagster.engine.requests import called_off
from qtg_dagster.faults import FaultPoint, fault_point

log = structlog.get_logger("qtg.engine")

EXPIRATION_CHECKER = "expiration_checker"
#: Who is on record as having done it.
ACTOR = f"system:{EXPIRATION_CHECKER}"
BATCH = 20


async def expire_pending_requests(engine: Engine) -> int:
    """PENDING_APPROVAL -> EXPIRED for every movement whose approval window has closed; says how many that were.

    Each in a transaction of its own: any number may sweep at once, and one that dies leaves what it held to the next.
    A movement that somebody holds is left to the next pass. One that cannot be expired stands in nobody's way: its
    error is raised when the others are done.
    """
    seen: set[str] = set()
    expired, failures = 0, list[Exception]()
    while True:
        found = await engine.store.find_expired(engine.settings.network_class, BATCH, but=seen)
        if not found:
            break
        seen.update(found)
        for request_id in found:
            try:
                expired += await _expire(engine, request_id)
            except Exception as error:
                log.exception("movement not expired", request=request_id)
                failures.append(error)
    if failures:
        raise failures[0]
    return expired


async def _expire(engine: Engine, request_id: str) -> bool:
    async with engine.store.deciding() as tx:
        request = await tx.lock_expired(request_id, engine.settings.network_class)
        if request is None:
            return False
        fault_point(FaultPoint.EXPIRE)
        await tx.decide(request, _expiry(request))
    return True


def _expiry(request: LockedRequest) -> Decision:
    expires_at = request.expires_at.isoformat() if request.expires_at else None
    policy = request.stored.plan.approval
    return Decision(
        actor=ACTOR,
        action="expire",
        details={
            "approvals": f"{len(request.approved_by)} of {policy.required}",
            "expires_at": expires_at,
        },
        state=RequestState.EXPIRED,
        moves=called_off(request, ACTOR, f"not approved before {expires_at}", StepKind.TIMED_OUT),
    )
