"""Venues' records as Dagster sees them: partitions, runs over a range of days, the schedule's rounds, the checks."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from assets.cex_transfer_checks import find_disputed, find_incomplete, find_unmatched
from assets.cex_transfers import DAY, MOST_DAYS_A_RUN, VENUE, record_partitions
from assets.keys import CEX_TRANSFERS
from qtg_dagster.composition import Platform
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.faults import FaultKind
from qtg_dagster.sandbox.exchange.server import serving
from qtg_dagster.secret import Secret
from qtg_dagster.settings import load_settings
from resources import ResourceSet
from resources.lookout import lookout_for
from tests.orchestration.shapes import Ask, Launch, Rows
from tests.orchestration.test_capital_transfers import evaluate
from tests.sandbox.exchange.conftest import API_KEY, API_SECRET, TOKEN, hot_wallet, make_config, new_address

__all__ = ["hot_wallet", "make_config", "new_address"]

KEY = "venue_a"
FIRST = (datetime.now(UTC) - timedelta(days=20)).date()

Ordered = Callable[[Callable[[ExchangeControl], Awaitable[Any]]], Any]


class StandIn:
    """The exchange in a thread of its own, so that runs can wait for it."""

    def __init__(self, config: ExchangeConfig) -> None:
        self._config = config
        self._ready = threading.Event()
        self.address = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self._config) as running:
            self.address = running.address
            self._ready.set()
            await self._end.wait()

    def __enter__(self) -> StandIn:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def order(self, what: Callable[[ExchangeControl], Awaitable[Any]]) -> Any:
        async def ordered() -> Any:
            async with ExchangeControl(self.address, Secret(TOKEN)) as control:
                return await what(control)

        return asyncio.run(ordered())


@pytest.fixture
def stand_in(make_config: Callable[..., ExchangeConfig]) -> Iterator[StandIn]:
    config = make_config(initial_balances={"ETH": "100000"}).model_copy(update={"chain": None})
    with StandIn(config) as running:
        yield running


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """One that lasts: schedules reach an instance by its reference only."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def location(stand_in: StandIn, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    venue = {
        "wire": "binance",
        "base_url": f"{stand_in.address}/{KEY}",
        "api_key": {"env": "RECORD_KEY"},
        "api_secret": {"env": "RECORD_SECRET"},
        "assets": {"ETH": "ETH"},
        "networks": {},
    }
    file = tmp_path / "inventory.yaml"
    file.write_text(yaml.safe_dump({"assets": {"ETH": {"symbol": "ETH", "decimals": 18}}, "venues": {KEY: venue}}))
    environment = {
        "DATABASE_URL": database_url,
        "QTG_HOME": str(tmp_path / "home"),
        "RECORD_KEY": API_KEY,
        "RECORD_SECRET": API_SECRET,
        "MG_INVENTORY_FILE": str(file),
        "MG_CEX_TRANSFER_INGEST_VENUES_CSV": KEY,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield importlib.reload(importlib.import_module("tests.orchestration.location"))
    lookout_for(database_url).close()
    lookout_for.cache_clear()


@pytest.fixture
def materialise(defs: dg.Definitions, instance: dg.DagsterInstance) -> Callable[..., dg.ExecuteInProcessResult]:
    """Run a range of days as a backfill's run does."""

    def run(first: date, last: date) -> dg.ExecuteInProcessResult:
        tags = {
            "dagster/asset_partition_range_start": f"{first}|{KEY}",
            "dagster/asset_partition_range_end": f"{last}|{KEY}",
        }
        job = defs.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=instance, tags=tags, asset_selection=[CEX_TRANSFERS], raise_on_error=False
        )

    return run


async def _findings(platform: Platform) -> dict[str, bool]:
    looks = (find_incomplete, find_unmatched, find_disputed)
    found = [await look(platform.database, platform.settings) for look in looks]
    return {one.check_name: one.passed for one in found}


def told(instance: dg.DagsterInstance) -> dict[str, dict[str, Any]]:
    """Partition -> what its newest materialisation shows."""
    found = instance.fetch_materializations(CEX_TRANSFERS, limit=1000, ascending=True).records
    return {
        str(record.asset_materialization.partition): {
            name: value.value for name, value in record.asset_materialization.metadata.items()
        }
        for record in found
        if record.asset_materialization is not None
    }


def test_there_is_a_partition_for_each_venue_and_day_and_a_year_is_one_run(location: Any) -> None:
    partitions = record_partitions(load_settings())
    today = datetime.now(UTC).date()
    assert partitions.has_partition_key(dg.MultiPartitionKey({DAY: str(today), VENUE: KEY}))
    asset = location.defs.resolve_assets_def(CEX_TRANSFERS)
    assert asset.backfill_policy.max_partitions_per_run == MOST_DAYS_A_RUN >= 366


def test_a_run_takes_a_range_of_days_and_tells_of_each(
    stand_in: StandIn, materialise: Callable[..., Any], instance: dg.DagsterInstance, rows: Rows, ask: Ask
) -> None:
    at = int(datetime.combine(FIRST, datetime.min.time(), UTC).timestamp() * 1000) + 3_600_000
    stand_in.order(lambda control: control.add_rows(KEY, "deposits", 7, newest_ms=at, spacing_ms=1000))
    result = materialise(FIRST, FIRST + timedelta(days=4))
    assert result.success
    shown = told(instance)
    assert len(shown) == 5
    assert shown[f"{FIRST}|{KEY}"] == {
        "state": "CLOSED",
        "transfers": 7,
        "open": 0,
        "new": 7,
        "changed": 0,
        "unmatched": 7,
    }
    assert rows("SELECT count(*) AS n FROM qtg.cex_transfers") == [{"n": 7}]
    findings = ask(_findings)
    assert findings == {"transfers_complete": True, "all_transfers_are_ours": False, "no_end_changed": True}


def test_days_that_could_not_be_read_fail_the_run_and_those_that_were_are_materialised(
    stand_in: StandIn, materialise: Callable[..., Any], instance: dg.DagsterInstance
) -> None:
    at = int(datetime.combine(FIRST, datetime.min.time(), UTC).timestamp() * 1000) + 3_600_000
    [key] = stand_in.order(lambda control: control.add_rows(KEY, "deposits", 1, newest_ms=at))
    stand_in.order(lambda control: control.show_instead(KEY, key, amount="much"))
    result = materialise(FIRST - timedelta(days=1), FIRST + timedelta(days=1))
    assert not result.success
    [failure] = [event for event in result.all_events if event.is_step_failure]
    shown = failure.step_failure_data.user_failure_data
    assert "1 of 3 days are incomplete: MALFORMED" in shown.description
    assert set(told(instance)) == {f"{FIRST + timedelta(days=days)}|{KEY}" for days in (-1, 1)}


def test_the_schedule_reads_what_is_due_and_then_has_nothing_to_do(
    stand_in: StandIn,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    launch: Launch,
    rows: Rows,
) -> None:
    stand_in.order(lambda control: control.add_rows(KEY, "withdrawals", 3, status="processing"))
    assert evaluate(defs, resources, instance, "ingest_cex_transfers").run_requests
    assert launch("ingest_cex_transfers").success
    assert rows("SELECT DISTINCT purpose FROM qtg.cex_transfer_readings") == [{"purpose": "trailing 90 days"}]
    skipped = evaluate(defs, resources, instance, "ingest_cex_transfers")
    assert "no record is due" in skipped.skip_message
    [beat] = rows("SELECT last_outcome FROM qtg.worker_heartbeats WHERE worker = 'cex_transfer_ingest'")
    assert beat["last_outcome"] == "ok"


def test_a_venue_that_fails_is_told_and_tried_again(
    stand_in: StandIn,
    defs: dg.Definitions,
    resources: ResourceSet,
    instance: dg.DagsterInstance,
    launch: Launch,
    metadata: Callable[..., dict[str, Any]],
) -> None:
    reply = {"status": 400, "body": '{"code": -1, "msg": "x"}'}
    stand_in.order(lambda control: control.order(FaultKind.REPLY, endpoint="deposits", times=1000, **reply))
    result = launch("ingest_cex_transfers")
    assert result.success
    assert "90 days incomplete: HTTP_400" in metadata(result)[f"{KEY}, problem"]
    # The other rescans are due all the same; what failed waits.
    assert evaluate(defs, resources, instance, "ingest_cex_transfers").run_requests


def test_a_venue_that_nobody_knows_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, location: Any) -> None:
    monkeypatch.setenv("MG_CEX_TRANSFER_INGEST_VENUES_CSV", f"{KEY}, venue_x")
    with pytest.raises(
        ConfigurationError, match=r"MG_CEX_TRANSFER_INGEST_VENUES_CSV: no venue 'venue_x'.*it has venue_a"
    ):
        load_settings()


def test_without_venues_the_schedule_is_off_and_says_why(monkeypatch: pytest.MonkeyPatch, location: Any) -> None:
    from sensors.schedules import schedules

    monkeypatch.setenv("MG_CEX_TRANSFER_INGEST_VENUES_CSV", "")
    [found] = [each for each in schedules(load_settings()) if each.name == "ingest_cex_transfers"]
    assert found.default_status is dg.DefaultScheduleStatus.STOPPED
    assert "MG_CEX_TRANSFER_INGEST_VENUES_CSV names no venue" in (found.description or "")
