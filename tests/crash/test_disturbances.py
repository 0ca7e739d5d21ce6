"""What happens around the workers: a server that crashes, clocks that are wrong, a claim that goes to another."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.faults import FaultPoint
from tests.crash.bench import Bench
from tests.crash.boundaries import Lane
from tests.crash.disturbances import Disturbance
from tests.crash.matrix import run_case
from tests.crash.oracles import judge
from tests.crash.provider.executor import set_modes
from tests.crash.proxy import CuttingProxy, Order, Strike
from tests.crash.spec import Role
from tests.crash.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _begin(bench: Bench, modes: list[str] | None = None) -> None:
    await bench.begin(with_world=False)
    await set_modes(bench.stage.bank_socket, bench.account, modes or [])


async def _end(bench: Bench) -> None:
    await bench.until_quiet(Lane.BANK, 30)
    assert (await judge(bench, Lane.BANK)).violations == []


@pytest.mark.parametrize("kind", list(Disturbance), ids=str)
async def test_a_disturbance_is_survived(bench: Bench, kind: Disturbance) -> None:
    outcome = await run_case(bench, kind, seed=1, kills=0)
    assert outcome.violations == []
    assert outcome.hits == 1


@pytest.mark.parametrize(("first", "second"), [(120.0, -120.0), (-120.0, 120.0)])
async def test_clocks_that_disagree_move_nothing_twice(stage: Stage, bench: Bench, first: float, second: float) -> None:
    await _begin(bench)
    await bench.order(Lane.BANK, 2)
    fault = f"{FaultPoint.RESPONSE_UNCOMMITTED}:kill"
    killed = await stage.nursery.hatch(bench.spec(fault=fault, skew=first))
    await asyncio.wait_for(killed.exited.wait(), 20)
    worker = await stage.nursery.hatch(bench.spec(skew=second))
    await _end(bench)
    await worker.kill()


async def test_two_workers_race_for_everything(stage: Stage, bench: Bench) -> None:
    await _begin(bench)
    await bench.order(Lane.BANK, 8)
    workers = [await stage.nursery.hatch(bench.spec(Role.PASSES)) for _ in range(2)]
    await _end(bench)
    assert len(bench.booked()) == 16
    for worker in workers:
        await worker.kill()


async def test_a_connection_that_breaks_within_the_commit_leaves_nothing_half_done(stage: Stage, bench: Bench) -> None:
    await _begin(bench)
    await bench.order(Lane.BANK, 2)
    async with CuttingProxy(bench.url) as proxy:
        proxy.arm(Order(b"INSERT INTO qtg.movement_node_attempts", Strike.REQUEST_CUT), lambda: None)
        worker = await stage.nursery.hatch(bench.spec(url=proxy.url))
        await asyncio.wait_for(proxy.struck.wait(), 20)
        await _end(bench)
        assert len(bench.booked()) == 4
        await worker.kill()
