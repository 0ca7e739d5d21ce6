"""Who is connected to a bench's database, and which nodes whose worker holds."""

from __future__ import annotations

import asyncio

from tests.crash.bench import Bench
from tests.crash.nursery import Worker


async def sessions(bench: Bench, application: str = "%") -> set[int]:
    """Server processes of the clients of the bench's database; `qtg lock` are those that hold runners' locks."""
    found = await bench.rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' "
        "AND application_name LIKE %s",
        application,
    )
    return {row["pid"] for row in found}


async def until_still(bench: Bench, pids: set[int]) -> None:
    """Wait until none of these runs a statement: what a stopped worker had sent before it stopped is done then."""

    async def still() -> bool:
        found = await bench.rows(
            "SELECT 1 AS one FROM pg_stat_activity WHERE pid = ANY (%s) AND state = 'active'", list(pids)
        )
        return not found

    await bench.until(still, "a stopped worker's statement does not end", 10)


async def end_sessions(bench: Bench, pids: set[int]) -> None:
    """End these and wait until they are gone, and their locks with them."""
    await bench.rows("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS pid", list(pids))


async def held_by(bench: Bench, worker: Worker) -> dict[str, int]:
    """Node id -> claim epoch of what a worker holds."""
    found = await bench.rows(
        "SELECT n.id::text AS id, n.claim_epoch FROM qtg.movement_request_nodes n "
        "JOIN qtg.runners u ON u.id = n.runner_id WHERE u.pid = %s",
        worker.pid,
    )
    return {row["id"]: row["claim_epoch"] for row in found}


async def until_stopped(worker: Worker, what: str, seconds: float) -> None:
    """Wait until a worker hangs at its fault point."""
    try:
        await asyncio.wait_for(worker.stopped.wait(), seconds)
    except TimeoutError:
        raise TimeoutError(f"{what} was not reached") from None
