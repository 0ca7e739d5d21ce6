"""All cells, so many benches at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from tests.crash.bench import Bench, open_bench
from tests.crash.boundaries import WORLD_LANES, Cell
from tests.crash.case import Case, Outcome
from tests.crash.stage import open_stage

_BENCHES = 2


async def run_cells(
    cells: Sequence[Cell], *, passes: int, seed: int, kills: int, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Run every cell `passes` times; `tell` hears of each as it ends."""
    waiting = [(cell, seed + number) for number in range(passes) for cell in cells]
    outcomes: list[Outcome] = []
    world_is_free = asyncio.Lock()

    async def work(bench: Bench) -> None:
        while waiting:
            place = next((n for n, (cell, _) in enumerate(waiting) if _may_start(cell, world_is_free)), None)
            if place is None:
                await asyncio.sleep(0.05)
                continue
            cell, number = waiting.pop(place)
            case = Case(bench, cell, number, kills)
            if cell.lane in WORLD_LANES:
                async with world_is_free:
                    outcome = await case.run()
            else:
                outcome = await case.run()
            outcomes.append(outcome)
            tell(outcome)

    with_world = any(cell.lane in WORLD_LANES for cell in cells)
    async with open_stage(with_world=with_world) as stage, AsyncExitStack() as stack:
        benches = [await stack.enter_async_context(open_bench(stage, number)) for number in range(_BENCHES)]
        await asyncio.gather(*(work(bench) for bench in benches))
    return outcomes


def _may_start(cell: Cell, world_is_free: asyncio.Lock) -> bool:
    return cell.lane not in WORLD_LANES or not world_is_free.locked()
