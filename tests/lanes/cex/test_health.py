"""Health of several venues: asked at once, each for a short time, and a silent one hides no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from qtg_dagster.domain.contract import HealthState
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import CexLane, register
from qtg_dagster.upkeep.health import _ANSWER_SECONDS
from tests.lanes.cex.conftest import API_KEY, API_SECRET, StandIn

#: More than anything that answers needs, and less than anybody waits for a test that fails.
PATIENT = 30.0
#: How long silence is waited for here: short, and still ample for a neighbour that answers on a busy machine.
SHORT = 1.5
PERMISSIONS = "/venue_a/sapi/v1/account/apiRestrictions"


class Street:
    """Venues a, b and so on. One that is `quiet` takes a call and says nothing."""

    def __init__(self) -> None:
        self.quiet: set[int] = set()
        self.first_asked: asyncio.Barrier | None = None
        self.venues: list[StandIn] = []
        self._waiting: set[int] = set()
        self._servers: list[asyncio.Server] = []

    async def add(self) -> StandIn:
        place, venue = len(self.venues), StandIn()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if place in self.quiet:
                await reader.read()  # until the other side gives up
                writer.close()
                return
            if self.first_asked is not None and place not in self._waiting:
                self._waiting.add(place)
                await self.first_asked.wait()
            await venue.serve(reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        venue.port = server.sockets[0].getsockname()[1]
        self._servers.append(server)
        self.venues.append(venue)
        return venue

    async def close(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()


@pytest.fixture
async def open_street(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    monkeypatch.setenv("VENUE_KEY", API_KEY)
    monkeypatch.setenv("VENUE_SECRET", API_SECRET)
    street, lanes = Street(), []

    async def build(venues: int, *, health_seconds: float) -> tuple[Street, ExecutorRegistry]:
        entries = {
            f"venue_{letter}": {
                "wire": "binance",
                "base_url": (await street.add()).base_url,
                "api_key": {"env": "VENUE_KEY"},
                "api_secret": {"env": "VENUE_SECRET"},
                "assets": {},
                "networks": {},
            }
            for letter in "abcdef"[:venues]
        }
        executors = ExecutorRegistry()
        lane: CexLane = register(
            executors, Inventory.model_validate({"venues": entries}), health_seconds=health_seconds
        )
        lanes.append(lane)
        return street, executors

    yield build
    for lane in lanes:
        await lane.close()
    await street.close()


def one(executors: ExecutorRegistry) -> Any:
    return executors.resolve("exec.cex.withdrawal_action")


async def test_all_venues_are_asked_at_once(open_street: Any) -> None:
    street, executors = await open_street(4, health_seconds=PATIENT)
    street.first_asked = asyncio.Barrier(4)  # nobody answers before everybody is asked
    report = await one(executors).health()
    assert report.health_state is HealthState.HEALTHY, report


async def test_one_silent_venue_of_several_degrades_under_its_name(open_street: Any) -> None:
    street, executors = await open_street(3, health_seconds=SHORT)
    street.quiet = {1}
    asked = asyncio.gather(*(executor.health() for _, executor in executors.items()))
    for report in await asyncio.wait_for(asked, PATIENT):
        assert report is not None
        assert report.health_state is HealthState.DEGRADED
        assert "venue_b: no answer within 1.5 s" in report.detail
        assert "venue_a: reachable" in report.detail
        assert "venue_c: reachable" in report.detail
    street.quiet.clear()
    assert (await one(executors).health()).health_state is HealthState.HEALTHY


async def test_when_all_are_silent_the_lane_is_down_after_one_wait(open_street: Any) -> None:
    street, executors = await open_street(3, health_seconds=SHORT)
    street.quiet = {0, 1, 2}
    report = await asyncio.wait_for(one(executors).health(), PATIENT)
    assert report.health_state is HealthState.DOWN
    assert [f"venue_{letter}: no answer" in report.detail for letter in "abc"] == [True, True, True]


async def test_both_questions_to_a_venue_share_one_limit(open_street: Any) -> None:
    """The first is answered at once, the second long after."""
    street, executors = await open_street(1, health_seconds=SHORT)
    street.venues[0].on(PERMISSIONS, answer_after=PATIENT * 2)
    report = await asyncio.wait_for(one(executors).health(), PATIENT)
    assert (report.health_state, report.detail) == (HealthState.DOWN, "venue_a: no answer within 1.5 s")


async def test_the_lanes_own_limit_leaves_the_health_worker_time_for_both_its_reads() -> None:
    lane = register(ExecutorRegistry(), Inventory())
    assert lane.accounts.health_seconds <= _ANSWER_SECONDS / 2
