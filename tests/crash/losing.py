"""COMMIT was sent, the server did it, and its answer never comes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from qtg_dagster.faults import FaultAction
from tests.crash.proxy import CuttingProxy, Order, Strike

if TYPE_CHECKING:
    from tests.crash.case import Case
    from tests.crash.nursery import Worker

#: Words of the statements that write an intent and an outcome.
INTENT = b"INSERT INTO qtg.movement_node_attempts"
OUTCOME = b"outcome_step_id="
_REACH_SECONDS = 20.0
_REST_SECONDS = 45.0


async def play(case: Case) -> None:
    """The cells of COMMIT_ACK_LOST: the worker is killed, gets a reset, or waits for an answer that does not come."""
    async with CuttingProxy(case.bench.url) as proxy:
        match case.cell.action:
            case FaultAction.KILL:
                for words in (OUTCOME, INTENT):
                    worker = await _lose(case, proxy, words, Strike.ACK_HELD)
                    await worker.kill()
                    proxy.release()
                    case.outcome.kills += 1
                    await case.bench.order(case.cell.lane, 2)
            case FaultAction.RAISE:
                for words in (OUTCOME, INTENT):
                    worker = await _lose(case, proxy, words, Strike.ACK_CUT)
                    await case.bench.until_quiet(case.cell.lane, _REST_SECONDS)
                    if worker.exited.is_set():
                        case.outcome.violations.append("the worker did not survive a lost answer")
                    await worker.kill()
                    case.outcome.kills += 1
                    await case.bench.order(case.cell.lane, 2)
            case FaultAction.HANG:
                await _wait_for_ever(case, proxy)


async def _lose(case: Case, proxy: CuttingProxy, words: bytes, strike: Strike) -> Worker:
    def mark() -> None:
        with case.bench.mark.open("a") as marks:
            marks.write(f"{case.cell.point} {case.cell.action} {strike} {time.time():.6f}\n")

    proxy.arm(Order(words, strike), mark)
    worker = await case.hatch(url=proxy.url)
    try:
        await asyncio.wait_for(proxy.struck.wait(), _REACH_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"no commit with {words!r} came by") from None
    case.outcome.hits += 1
    return worker


async def _wait_for_ever(case: Case, proxy: CuttingProxy) -> None:
    worker = await _lose(case, proxy, OUTCOME, Strike.ACK_HELD)
    rival = await case.hatch_rival()
    try:
        await case.others_go_on(5)
    except TimeoutError:
        case.outcome.notes.append("one write without an answer held up everything else of its worker")
    proxy.release()
    await case.bench.until_quiet(case.cell.lane, _REST_SECONDS)
    for each in (worker, rival):
        await each.kill()
        case.outcome.kills += 1
