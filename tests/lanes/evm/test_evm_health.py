"""Health of several chains: asked at once, each for a short time, and a silent one hides no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from qtg_dagster.domain.contract import HealthReport, HealthState
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.evm import EvmLane, register
from qtg_dagster.upkeep.health import _ANSWER_SECONDS
from tests.lanes.evm.conftest import MemoryLedger

#: More than anything that answers needs, and less than anybody waits for a test that fails.
PATIENT = 30.0
#: How long silence is waited for here: short, and still ample for a neighbour that answers on a busy machine.
SHORT = 1.5
KEY = "key-in-the-path"


class Nodes:
    """Endpoints of chains 1, 2 and so on, one application each. One that is `quiet` takes a call and says nothing."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.quiet: set[int] = set()
        self.asked: set[int] = set()
        self.all_asked: asyncio.Barrier | None = None
        self._closing = asyncio.Event()
        self._runners: list[web.AppRunner] = []

    async def add(self, chain_id: int) -> str:
        """The address of one more endpoint of this chain."""
        place = len(self._runners)

        async def handle(request: web.Request) -> web.Response:
            method = (await request.json())["method"]
            self.asked.add(place)
            if place in self.quiet:
                await self._closing.wait()
            if self.all_asked is not None and method == "eth_chainId":
                await self.all_asked.wait()
            told = {"eth_chainId": hex(chain_id), "eth_blockNumber": hex(100 + place)} | self.answers
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": told[method]})

        application = web.Application()
        application.router.add_post("/{path:.*}", handle)
        runner = web.AppRunner(application, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}/{KEY}"

    async def close(self) -> None:
        self._closing.set()
        for runner in self._runners:
            await runner.cleanup()


class Desk:
    """The lane over chains with so many endpoints each."""

    def __init__(self, nodes: Nodes, lane: EvmLane, executors: ExecutorRegistry, urls: list[list[str]]) -> None:
        self.nodes, self.lane, self.executors, self.urls = nodes, lane, executors, urls

    async def health(self) -> HealthReport:
        reports = await asyncio.gather(*(executor.health() for _, executor in self.executors.items()))
        assert len(reports) == 3
        assert len({report.model_dump_json() for report in reports if report}) == 1, "the lane's executors say the same"
        assert reports[0] is not None
        assert KEY not in reports[0].detail
        return reports[0]


@pytest.fixture
async def open_desk() -> AsyncIterator[Callable[..., Any]]:
    nodes, lanes = Nodes(), []

    async def build(*endpoints: int, health_seconds: float) -> Desk:
        urls = [[await nodes.add(chain) for _ in range(count)] for chain, count in enumerate(endpoints, 1)]
        chains = {
            f"eip155:{chain}": {"name": f"chain {chain}", "rpc_urls": addresses, "native_asset": "ETH"}
            for chain, addresses in enumerate(urls, 1)
        }
        assets = {"ETH": {"symbol": "ETH", "decimals": 18}}
        executors = ExecutorRegistry()
        inventory = Inventory.model_validate({"assets": assets, "chains": chains})
        lane = register(executors, inventory, MemoryLedger(), health_seconds=health_seconds)
        lanes.append(lane)
        return Desk(nodes, lane, executors, urls)

    yield build
    for lane in lanes:
        await lane.close()
    await nodes.close()


async def test_all_endpoints_of_all_chains_are_asked_at_once(open_desk: Any) -> None:
    desk = await open_desk(2, 1, 2, health_seconds=PATIENT)
    desk.nodes.all_asked = asyncio.Barrier(5)  # nobody answers before everybody is asked
    report = await desk.health()
    assert report.health_state is HealthState.HEALTHY, report
    assert report.detail == "eip155:1 at block 101; eip155:2 at block 102; eip155:3 at block 104"


async def test_one_silent_chain_of_several_degrades_under_its_name(open_desk: Any) -> None:
    desk = await open_desk(1, 1, 1, health_seconds=SHORT)
    desk.nodes.quiet = {1}
    report = await asyncio.wait_for(desk.health(), PATIENT)
    assert report.health_state is HealthState.DEGRADED
    assert report.detail.startswith("eip155:2: 127.0.0.1:")
    assert "no answer within 1.5 s" in report.detail
    assert "eip155:1" not in report.detail
    assert desk.nodes.asked == {0, 1, 2}
    desk.nodes.quiet.clear()
    assert (await desk.health()).health_state is HealthState.HEALTHY


async def test_one_silent_endpoint_degrades_a_chain_that_another_serves(open_desk: Any) -> None:
    desk = await open_desk(2, health_seconds=SHORT)
    desk.nodes.quiet = {0}
    report = await asyncio.wait_for(desk.health(), PATIENT)
    assert report.health_state is HealthState.DEGRADED
    silent = desk.urls[0][0].removeprefix("http://").removesuffix(f"/{KEY}")
    assert report.detail == f"eip155:1: {silent}: no answer within 1.5 s"


async def test_when_all_are_silent_the_lane_is_down_after_one_wait(open_desk: Any) -> None:
    desk = await open_desk(1, 1, 1, health_seconds=SHORT)
    desk.nodes.quiet = {0, 1, 2}
    report = await asyncio.wait_for(desk.health(), PATIENT)
    assert report.health_state is HealthState.DOWN
    assert [f"eip155:{chain}: " in report.detail for chain in (1, 2, 3)] == [True, True, True]


async def test_an_endpoint_of_another_chain_takes_its_chain_down_and_no_other(open_desk: Any) -> None:
    desk = await open_desk(1, 1, health_seconds=PATIENT)
    desk.nodes.answers["eth_chainId"] = "0x2"
    report = await desk.health()
    assert report.health_state is HealthState.DEGRADED
    assert "serves eip155:2" in report.detail


@pytest.mark.parametrize("height", [None, "latest", 7, []], ids=repr)
async def test_a_height_that_is_no_number_is_not_health(open_desk: Any, height: Any) -> None:
    desk = await open_desk(1, health_seconds=PATIENT)
    desk.nodes.answers["eth_blockNumber"] = height
    report = await desk.health()
    assert report.health_state is HealthState.DOWN
    assert "eth_blockNumber" in report.detail


async def test_the_lanes_own_limit_leaves_the_health_worker_time_for_both_its_reads() -> None:
    lane = register(ExecutorRegistry(), Inventory(), MemoryLedger())
    assert lane.chains.health_seconds <= _ANSWER_SECONDS / 2
