"""Stopping what would start, and letting it go again: on a lane, a venue, a chain or all of a network class.

Work goes on being accepted, and what is in flight is finished. Once a breaker has been opened, no node under it is
submitted, whoever claimed it before.
"""

from __future__ import annotations

from collections.abc import Mapping

from qtg_dagster.domain.breakers import Breaker, ScopeKind, check_scope, known_scopes, scope
from qtg_dagster.domain.errors import Conflict, InvalidInput, NotFound
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.audit import audit
from qtg_dagster.store.breakers import (
    lock_breakers,
    outlast_intents,
    standing_breakers,
    write_close,
    write_open,
    write_release,
)
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.decided import Decided

#: Who opens breakers at start-up.
STARTUP = "startup"
MOST_PER_MINUTE = 6000


async def open_breaker(engine: Engine, name: str, *, actor: str, reason: str) -> Breaker:
    """Let nothing under a scope start once this has returned; one that was released holds again.

    Raises `InvalidInput` with the known scopes; `Conflict` when it is open already, or when it is open now but an
    intent that may not have seen it does not end.
    """
    network_class = engine.settings.network_class
    executors = [key for key, _ in engine.executors.items()]
    check_scope(name, known_scopes(network_class, executors, engine.inventory.venues, engine.inventory.chains))
    if not reason.strip():
        raise InvalidInput("reason", "is empty", "Say what is wrong: whoever closes the breaker must know.")
    async with engine.database.transaction() as tx:
        before = (await lock_breakers(tx, network_class)).get(name)
        if before is not None and not before.released:
            raise Conflict(f"the breaker on {name} is {before.told()}")
        if before is not None:
            await write_close(tx, before, actor=actor, reason=f"opened again: {reason}")
        await write_open(tx, network_class, name, actor=actor, reason=reason)
        await _audit(tx, engine, actor, "open_breaker", name, {"reason": reason})
    return await _settled(engine, name)


async def release_breaker(engine: Engine, name: str, *, per_minute: int, actor: str, reason: str = "") -> Breaker:
    """Let nodes under an open breaker through, at most so many in any minute, until it is closed or opened again.

    Raises `InvalidInput`; `NotFound` when none is open there.
    """
    if not 1 <= per_minute <= MOST_PER_MINUTE:
        raise InvalidInput("per_minute", f"{per_minute} is out of bounds", f"Use 1 to {MOST_PER_MINUTE}, or close it.")
    network_class = engine.settings.network_class
    async with engine.database.transaction() as tx:
        breaker = _found(await lock_breakers(tx, network_class), name)
        await write_release(tx, breaker, per_minute=per_minute, actor=actor)
        await _audit(tx, engine, actor, "release_breaker", name, {"reason": reason, "per_minute": per_minute})
        await Decided(tx).wake("dispatch")
        return await _standing(tx, network_class, name)


async def close_breaker(engine: Engine, name: str, *, actor: str, reason: str = "") -> Breaker:
    """Let all nodes under a scope start again, as far as no other breaker covers them; returns it as it last stood.

    Raises `NotFound` when none is open there.
    """
    async with engine.database.transaction() as tx:
        breaker = _found(await lock_breakers(tx, engine.settings.network_class), name)
        await write_close(tx, breaker, actor=actor, reason=reason)
        await _audit(tx, engine, actor, "close_breaker", name, {"reason": reason, "stood": breaker.told()})
        await Decided(tx).wake("dispatch")
        return breaker


async def start_paused(engine: Engine) -> None:
    """Open a breaker on all of the network class, unless one stands there already, released or not."""
    network_class = engine.settings.network_class
    name, reason = scope(ScopeKind.NETWORK, network_class), "started paused (MG_START_PAUSED)"
    async with engine.database.transaction() as tx:
        if name in await lock_breakers(tx, network_class):
            return
        await write_open(tx, network_class, name, actor=STARTUP, reason=reason)
        await _audit(tx, engine, STARTUP, "open_breaker", name, {"reason": reason})
    await _settled(engine, name)


async def _settled(engine: Engine, name: str) -> Breaker:
    """The breaker that was opened, once no intent is left that may not have seen it."""
    async with engine.database.transaction() as tx:
        settled = await outlast_intents(tx)
    async with engine.database.transaction() as tx:
        breaker = await _standing(tx, engine.settings.network_class, name)
    if not settled:
        raise Conflict(
            f"the breaker on {name} is {breaker.told()}; but an intent from before does not end, and may still start "
            "its node: look for a hanging worker in `qtg workers`"
        )
    return breaker


def _found(standing: Mapping[str, Breaker], name: str) -> Breaker:
    if name not in standing:
        raise NotFound(f"no breaker is open on {name!r}; open are: {', '.join(standing) or 'none'}")
    return standing[name]


async def _standing(tx: Transaction, network_class: str, name: str) -> Breaker:
    return next(breaker for breaker in await standing_breakers(tx, network_class) if breaker.scope == name)


async def _audit(
    tx: Transaction, engine: Engine, actor: str, action: str, name: str, details: Mapping[str, object]
) -> None:
    await audit(
        tx,
        network_class=engine.settings.network_class,
        actor=actor,
        action=action,
        subject_type="breaker",
        subject_id=name,
        details=details,
    )
