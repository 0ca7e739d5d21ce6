"""A service has the time to say whose silence it is: one silent venue behind it hides neither it nor the others."""

from __future__ import annotations

import asyncio

import pytest

from qtg_dagster.domain.contract import HealthState
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.executors.remote.executor import Timeouts
from qtg_dagster.lanes import cex
from qtg_dagster.lanes.cex.accounts import HEALTH_SECONDS as CEX_SECONDS
from qtg_dagster.lanes.evm.rpc import HEALTH_SECONDS as EVM_SECONDS
from qtg_dagster.upkeep.health import _ANSWER_SECONDS
from tests.executors.conformance.cex_bench import inventory_of
from tests.executors.conformance.served import serving
from tests.lanes.cex.conftest import API_KEY, API_SECRET, StandIn

_KEY = "exec.cex.withdrawal_action"


@pytest.mark.parametrize("lane_seconds", [CEX_SECONDS, EVM_SECONDS])
def test_a_service_is_given_longer_than_its_lane_waits_and_less_than_the_health_worker_does(
    lane_seconds: float,
) -> None:
    assert lane_seconds + 1 <= Timeouts().health <= _ANSWER_SECONDS - 1


async def test_one_silent_venue_behind_a_service_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUE_A_KEY", API_KEY)
    monkeypatch.setenv("VENUE_A_SECRET", API_SECRET)
    speaking, silent = StandIn(), StandIn()
    over = asyncio.Event()

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    executors = ExecutorRegistry()
    async with (
        await asyncio.start_server(speaking.serve, "127.0.0.1", 0) as well,
        await asyncio.start_server(say_nothing, "127.0.0.1", 0) as mute,
    ):
        speaking.port, silent.port = (each.sockets[0].getsockname()[1] for each in (well, mute))
        lane = cex.register(executors, inventory_of(speaking, silent), health_seconds=0.5)
        try:
            async with serving(_KEY, executors.resolve(_KEY)) as (url, connect):
                report = await connect(url).health()
        finally:
            over.set()
            await lane.close()
    assert report.health_state is HealthState.DEGRADED, report
    assert "venue_a: reachable" in str(report.detail)
    assert "venue_b: no answer within 0.5 s" in str(report.detail)
