"""Tier 2: three workers under steady work, one of them killed every few seconds, their database restarted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from qtg_dagster.domain.errors import QtgError
from tests.crash.bench import AWAY, Bench, open_bench
from tests.crash.boundaries import Lane
from tests.crash.disturbances import PROGRESS_SECONDS
from tests.crash.nursery import Worker
from tests.crash.oracles import judge
from tests.crash.provider.executor import set_modes
from tests.crash.provider.server import Mode
from tests.crash.proxy import CuttingProxy
from tests.crash.server import restart
from tests.crash.spec import Role
from tests.crash.stage import Stage, open_stage

_ROLES = (Role.DRAINS, Role.PASSES, Role.PASSES)
_SKEWS = (0.0, 0.0, 120.0, -120.0)
_RESTART_SECONDS = 60.0
_ORDER_SECONDS = 0.25
_REST_SECONDS = 240.0
_WORLD = (Lane.EVM_TRANSFER, Lane.EVM_OBSERVE, Lane.CEX_WITHDRAWAL, Lane.CEX_DEPOSIT)
_AWAY = (*AWAY, QtgError)


class Soak:
    """One run: its workers, its disturbances, its counts."""

    def __init__(self, stage: Stage, bench: Bench, proxy: CuttingProxy, seed: int) -> None:
        self._stage, self._bench, self._proxy = stage, bench, proxy
        self._random = random.Random(seed)  # noqa: S311 - a seed replays the order of events
        self._workers: list[Worker] = []
        self.kills = self.restarts = self.orders = 0
        self.back_to_progress: list[float] = []

    async def run(self, seconds: float) -> None:
        """Disturb for so long, then let everything come to rest."""
        await self._bench.begin(with_world=self._stage.world is not None)
        self._proxy.toxics.latency_seconds = 0.002
        self._proxy.toxics.reset_every_bytes = 20_000_000
        self._proxy.toxics.random = self._random
        for number in range(len(_ROLES)):
            self._workers.append(await self._hatch(number))
        disturbing = [asyncio.create_task(work()) for work in (self._kill, self._restart, self._order)]
        done, _ = await asyncio.wait(disturbing, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in disturbing:
            task.cancel()
        await asyncio.gather(*disturbing, return_exceptions=True)
        for task in done:
            task.result()
        await self._come_to_rest()

    async def _hatch(self, number: int) -> Worker:
        # Another machine's clock may be wrong; the exchange's look-ups go by the clock, and time out of their window.
        skew = self._random.choice(_SKEWS) if self._stage.world is None else 0.0
        spec = self._bench.spec(_ROLES[number], url=self._proxy.url, skew=skew)
        return await self._stage.nursery.hatch(spec)

    async def _kill(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(1, 5))
            number = self._random.randrange(len(self._workers))
            await self._workers[number].kill()
            self.kills += 1
            self._workers[number] = await self._hatch(number)

    async def _restart(self) -> None:
        while True:
            await asyncio.sleep(_RESTART_SECONDS)
            back = (await restart(self._stage)).back
            self.restarts += 1
            moves = len(self._bench.booked())
            while len(self._bench.booked()) == moves:
                await asyncio.sleep(0.02)
            self.back_to_progress.append(self._bench.booked()[moves].at - back)

    async def _order(self) -> None:
        modes = [mode for mode in Mode for _ in range(6 if mode is Mode.OK else 1)]
        while True:
            await asyncio.sleep(_ORDER_SECONDS)
            lane = Lane.BANK
            if self._stage.world is not None and self._random.random() < 0.2:
                lane = self._random.choice(_WORLD)
            chosen = [str(mode) for mode in self._random.choices(modes, k=4)]
            await set_modes(self._stage.bank_socket, self._bench.account, chosen)
            with suppress(*_AWAY):  # the owner orders again; what was stored all the same is approved in the end
                await self._bench.order(lane)
                self.orders += 1

    async def _come_to_rest(self) -> None:
        self._proxy.toxics.reset_every_bytes = 0
        await set_modes(self._stage.bank_socket, self._bench.account, [])
        self._workers.append(await self._stage.nursery.hatch(self._bench.spec(Role.APPROVE)))
        try:
            await self._bench.until_quiet(None, _REST_SECONDS)
        finally:
            for worker in self._workers[:-2]:
                await worker.kill()


async def soak(seconds: float, seed: int, *, with_world: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run and judge; the figures."""
    async with (
        open_stage(with_world=with_world) as stage,
        open_bench(stage, 0) as bench,
        CuttingProxy(bench.url) as proxy,
    ):
        tell(f"soaking for {seconds:g} s, seed {seed}")
        run, violations = Soak(stage, bench, proxy, seed), []
        try:
            await run.run(seconds)
        except TimeoutError as late:
            violations.append(f"liveness: {late}")
        slow = max(run.back_to_progress, default=0.0)
        if slow > PROGRESS_SECONDS:
            violations.append(f"no move for {slow:.1f} s after the server's return")
        verdict = await judge(bench, None)
        steps = await bench.rows("SELECT count(*) AS many FROM qtg.movement_node_steps WHERE to_state IS NOT NULL")
        fenced = await bench.rows("SELECT count(*) AS many FROM qtg.movement_node_steps WHERE step_kind = 'fenced'")
        return {
            "seconds": seconds,
            "seed": seed,
            "kills": run.kills,
            "postgres_restarts": run.restarts,
            "movements": run.orders,
            "node_steps": steps[0]["many"],
            "node_steps_per_second": round(steps[0]["many"] / seconds, 1),
            "fenced_writes": fenced[0]["many"],
            "moved_once": verdict.once,
            "moved_twice": verdict.twice,
            "moved_never": verdict.never,
            "with_people": verdict.with_people,
            "called_off": verdict.called_off,
            "postgres_back_to_progress_max": max(run.back_to_progress, default=None),
            "violations": [*violations, *verdict.violations],
        }
