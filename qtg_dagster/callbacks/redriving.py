"""What operators do about callbacks: try again what was given up, and tell once more what was told.

Neither makes an event: what was written with the state change is sent as it was, under the same id. So whoever has
acted on it knows it again.
"""

from __future__ import annotations

from qtg_dagster.domain.errors import InvalidInput, NotFound
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.callback_desk import Resent, redrive, resend, wake_delivery

_WHY = "Say why: it goes into the audit trail."


async def redrive_callbacks(
    engine: Engine, *, request_id: str | None = None, receiver: str | None = None, actor: str, reason: str
) -> int:
    """Have callbacks in the dlq tried anew, with all their attempts: of a movement, of a receiver, or all.

    Gives how many; nothing is written, and nothing audited, when there are none. Raises `InvalidInput`.
    """
    _check_reason(reason)
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        events = await redrive(tx, network_class, request_id=request_id, receiver=receiver)
        if events:
            await audit(
                tx,
                network_class=network_class,
                actor=actor,
                action="redrive_callbacks",
                subject_type="callbacks",
                subject_id=request_id or receiver or "dlq",
                details={"events": len(events), "movement": request_id, "receiver": receiver, "reason": reason},
            )
            await wake_delivery(tx)
    return len(events)


async def resend_callbacks(
    engine: Engine,
    *,
    event_id: str | None = None,
    request_id: str | None = None,
    transaction_hash: str | None = None,
    actor: str,
    reason: str,
) -> Resent:
    """Have callbacks told once more: one event, all of a movement, or all of the movements a transaction is part of.

    One that waits for its next attempt is due at once; one that is being sent is let be. Raises `NotFound` when there
    is no such callback, `InvalidInput` unless exactly one of the three is named.
    """
    _check_reason(reason)
    meant = {"event_id": event_id, "request_id": request_id, "transaction_hash": transaction_hash}
    named = {name: value for name, value in meant.items() if value}
    if len(named) != 1:
        raise InvalidInput("callbacks", f"{len(named)} of {', '.join(meant)} are given", "Give exactly one.")
    [(name, value)] = named.items()
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        resent = await resend(tx, network_class, **{name: value})
        if not resent.found:
            raise NotFound(f"no callback of {name} {value!r} is in network class {network_class}")
        await audit(
            tx,
            network_class=network_class,
            actor=actor,
            action="resend_callbacks",
            subject_type="callbacks",
            subject_id=value,
            details={name: value, "events": resent.found, "told_again": resent.again, "reason": reason},
        )
        await wake_delivery(tx)
    return resent


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise InvalidInput("reason", "is empty", _WHY)
