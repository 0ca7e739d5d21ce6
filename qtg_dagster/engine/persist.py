"""Getting what is known into the database, also when the database is away for a moment."""

from __future__ import annotations

import asyncio

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from qtg_dagster.domain.progress import Advance
from qtg_dagster.engine.parts import Engine
from qtg_dagster.store.moves import Move, record_move
from qtg_dagster.store.work import Work

log = structlog.get_logger("qtg.engine")

RETRY_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


async def record(engine: Engine, work: Work, move: Move) -> Advance:
    """Record a move, again after short waits while the database fails or cannot be reached.

    Safe to repeat: when a first write did commit and only its answer was lost, the second finds the node moved on,
    changes nothing and raises `StaleClaim`. When all tries fail the error is raised; recovery finds the rest.
    """
    for delay in RETRY_DELAYS:
        try:
            return await record_move(engine.database, work, move)
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            log.warning(
                "database unreachable, outcome kept in memory",
                node=work.claim.node_id,
                retry_in=delay,
                error=type(error).__name__,
            )
        await asyncio.sleep(delay)
    return await record_move(engine.database, work, move)
