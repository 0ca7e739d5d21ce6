"""Breakers that stand: opened, released and closed under one lock, and how to outlast those that did not see them."""

from __future__ import annotations

from psycopg.errors import LockNotAvailable
from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError

from qtg_dagster.domain.breakers import Breaker
from qtg_dagster.domain.errors import Conflict
from qtg_dagster.store.database import Transaction

_PATIENCE_SECONDS = 5

# Excludes others who change breakers, and turns; intents, which mean row locks only, pass.
_LOCK = text("LOCK TABLE qtg.breakers IN SHARE ROW EXCLUSIVE MODE")
# Excludes intents: it is given when all that are being written have ended.
_OUTLAST = text("LOCK TABLE qtg.breakers IN EXCLUSIVE MODE")
_STANDING = text("""
    SELECT b.id, b.scope, b.opened_at, b.opened_by, b.reason, b.let_through, b.released_at, b.released_by,
           b.release_per_minute AS per_minute,
           (SELECT count(*) FROM qtg.movement_request_nodes n JOIN qtg.movement_requests r ON r.id = n.request_id
            WHERE n.node_state = 'READY' AND n.node_kind <> 'manual' AND b.scope = ANY (n.scopes)
              AND r.request_state IN ('APPROVED', 'EXECUTING') AND r.network_class = b.network_class
              AND r.failed_nodes = 0
              AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s
                              WHERE s.breaker_id = b.id AND s.request_node_id = n.id)) AS held
    FROM qtg.breakers b
    WHERE b.network_class = :network_class AND b.closed_at IS NULL
    ORDER BY b.opened_at, b.id
""")
_HELD_NODES = text("""
    SELECT n.node_key, string_agg(b.scope, ', ' ORDER BY b.scope) AS scopes
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id
    JOIN qtg.breakers b ON b.network_class = r.network_class AND b.closed_at IS NULL AND b.scope = ANY (n.scopes)
    WHERE r.id = CAST(:request_id AS uuid) AND n.node_state = 'READY' AND n.node_kind <> 'manual'
      AND NOT EXISTS (SELECT 1 FROM qtg.breaker_starts s WHERE s.breaker_id = b.id AND s.request_node_id = n.id)
    GROUP BY n.node_key
""")
_OPEN = text("""
    INSERT INTO qtg.breakers (network_class, scope, opened_by, reason)
    VALUES (:network_class, :scope, :actor, :reason)
""")
_RELEASE = text("""
    UPDATE qtg.breakers
    SET released_at = clock_timestamp(), released_by = :actor, release_per_minute = :per_minute,
        next_start_at = clock_timestamp()
    WHERE id = :id
""")
_CLOSE = text("""
    WITH forgotten AS (DELETE FROM qtg.breaker_starts WHERE breaker_id = :id)
    UPDATE qtg.breakers SET closed_at = clock_timestamp(), closed_by = :actor, close_reason = :reason WHERE id = :id
""")


async def standing_breakers(transaction: Transaction, network_class: str) -> list[Breaker]:
    """Breakers that are not closed, oldest first, with what each holds back."""
    rows = await transaction.execute(_STANDING, {"network_class": network_class})
    return [Breaker(**row) for row in rows.mappings()]


async def held_nodes(transaction: Transaction, request_id: str) -> dict[str, str]:
    """READY nodes of a movement that wait for breakers: node key -> their scopes."""
    rows = await transaction.execute(_HELD_NODES, {"request_id": request_id})
    return {row.node_key: row.scopes for row in rows}


async def lock_breakers(transaction: Transaction, network_class: str) -> dict[str, Breaker]:
    """Scope -> breaker, to be changed by this transaction alone; raises `Conflict` when another does not end."""
    if not await _lock(transaction, _LOCK):
        raise Conflict(
            f"others have kept the breakers locked for {_PATIENCE_SECONDS} s; nothing was changed, try again"
        )
    return {breaker.scope: breaker for breaker in await standing_breakers(transaction, network_class)}


async def outlast_intents(transaction: Transaction) -> bool:
    """Wait until every intent has ended that may not have seen the breakers that stand now; False when one does not.

    Intents that begin meanwhile wait as well, which is why there is an end to it.
    """
    return await _lock(transaction, _OUTLAST)


async def _lock(transaction: Transaction, statement: TextClause) -> bool:
    await transaction.execute(text(f"SET LOCAL lock_timeout = '{_PATIENCE_SECONDS}s'"))
    try:
        async with transaction.begin_nested():
            await transaction.execute(statement)
    except DBAPIError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        return False
    return True


async def write_open(transaction: Transaction, network_class: str, scope: str, *, actor: str, reason: str) -> None:
    """A new breaker on a scope that has none."""
    bound = {"network_class": network_class, "scope": scope, "actor": actor, "reason": reason}
    await transaction.execute(_OPEN, bound)


async def write_release(transaction: Transaction, breaker: Breaker, *, per_minute: int, actor: str) -> None:
    """Turns from now on; a release at another rate begins to count anew."""
    await transaction.execute(_RELEASE, {"id": breaker.id, "per_minute": per_minute, "actor": actor})


async def write_close(transaction: Transaction, breaker: Breaker, *, actor: str, reason: str) -> None:
    """The end of a breaker, and of the leaves that it gave."""
    await transaction.execute(_CLOSE, {"id": breaker.id, "actor": actor, "reason": reason})
