"""All cells and disturbances, on several stages at a time: nothing is shared between them, so a server may go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from tests.crash.bench import Bench, open_bench
from tests.crash.boundaries import WORLD_LANES, Cell, Lane
from tests.crash.case import Case
from tests.crash.disturbances import Disturbance, disturb
from tests.crash.outcome import Outcome, judged
from tests.crash.stage import open_stage

_STAGES = 2


async def run_cases(
    cases: Sequence[Cell | Disturbance], *, passes: int, seed: int, kills: int, tell: Callable[[Outcome], None]
) -> None:
    """Run every case `passes` times; `tell` hears of each as it ends."""
    waiting = deque((case, seed + number) for number in range(passes) for case in cases)
    with_world = any(isinstance(case, Cell) and case.lane in WORLD_LANES for case in cases)

    async def work() -> None:
        async with open_stage(with_world=with_world) as stage, open_bench(stage, 0) as bench:
            while waiting:
                case, number = waiting.popleft()
                tell(await run_case(bench, case, number, kills))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(_STAGES, len(waiting))):
            group.create_task(work())


async def run_case(bench: Bench, case: Cell | Disturbance, seed: int, kills: int) -> Outcome:
    """One case on an empty bench."""
    if isinstance(case, Cell):
        return await Case(bench, case, seed, kills).run()
    outcome = Outcome(case, seed)
    async with judged(bench, outcome, Lane.BANK):
        await bench.begin(with_world=False)
        await disturb(bench, case, outcome)
    return outcome
