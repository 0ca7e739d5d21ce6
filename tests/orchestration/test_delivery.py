"""The delivery drain as Dagster sees it: launched for what waits, and only then."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest

from qtg_dagster.composition import Platform
from qtg_dagster.definitions import build_definitions
from qtg_dagster.domain.workers import Claimant, RunnerIdentity
from qtg_dagster.settings import Settings, load_settings
from qtg_dagster.store.database import Database
from qtg_dagster.store.runners import Runner
from qtg_dagster.upkeep.couriers import Courier
from resources import DeliveryResource, ResourceSet
from tests.orchestration.shapes import Ask, Launch, Rows, Tick

POST: list[str] = []


@dataclass
class Postman:
    """Carries what lies in `POST`."""

    worker: str = "callback_dispatcher"
    interval_seconds: float = 1.0
    in_flight: int = 0

    async def work(self, claimant: Claimant, more: asyncio.Event) -> int:  # noqa: ARG002
        many = len(POST)
        POST.clear()
        return many

    async def finish(self, seconds: float) -> None:  # noqa: ARG002
        return

    async def waiting(self, horizon_seconds: float = 0) -> int:  # noqa: ARG002
        return len(POST)


class PostOffice(DeliveryResource):
    """One courier of the tests' own."""

    def couriers(self, database: Database, settings: Settings) -> Sequence[Courier]:  # noqa: ARG002
        return [Postman()]


@pytest.fixture
def resources(location: Any) -> ResourceSet:
    wired = ResourceSet.wired()
    return ResourceSet.wired(location.resources.executors, PostOffice(settings=wired.settings))


@pytest.fixture
def defs(resources: ResourceSet) -> dg.Definitions:
    return build_definitions(load_settings(), resources)


@pytest.fixture
def tick(defs: dg.Definitions, resources: ResourceSet, instance: dg.DagsterInstance) -> Tick:
    def evaluate(name: str) -> dg.SensorResult:
        given = {"settings": resources.settings, "delivery": resources.delivery}
        with dg.build_sensor_context(instance=instance, resources=given) as context:
            result = defs.resolve_sensor_def(name)(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


@pytest.fixture(autouse=True)
def _no_post() -> Iterator[None]:
    POST.clear()
    yield
    POST.clear()


def test_without_post_nothing_is_launched(tick: Tick) -> None:
    result = tick("pending_outbox")
    assert not result.run_requests
    assert "no work" in result.skip_reason.skip_message


def test_post_launches_one_drain_and_the_page_says_whose_it_is(tick: Tick) -> None:
    POST.extend(["a", "b"])
    [request] = tick("pending_outbox").run_requests
    assert request.run_key is None


def test_a_run_that_is_starting_is_waited_for(tick: Tick, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    POST.append("a")
    instance.create_run_for_job(defs.resolve_job_def("deliver"), status=dg.DagsterRunStatus.STARTING)
    result = tick("pending_outbox")
    assert not result.run_requests
    assert "1 item waits" in result.skip_reason.skip_message
    assert "callback_dispatcher 1" in result.skip_reason.skip_message


def test_a_drain_at_work_is_seen_by_its_lock(tick: Tick, ask: Ask) -> None:
    POST.append("a")

    async def held(platform: Platform) -> dg.SensorResult:
        async with Runner(platform.database, RunnerIdentity("deliver", platform.settings.network_class)) as runner:
            await runner.take_slot(60)
            return await asyncio.to_thread(tick, "pending_outbox")

    assert "works" in ask(held).skip_reason.skip_message
    assert tick("pending_outbox").run_requests, "the lock went with its session"


def test_the_run_carries_the_post_ends_idle_and_shows_both(launch: Launch, rows: Rows, metadata: Any) -> None:
    POST.extend(["a", "b", "c"])
    result = launch("deliver")
    assert result.success
    assert metadata(result)["ended because"] == "idle"
    assert metadata(result)["callback_dispatcher"] == 3
    [beat] = rows("SELECT last_outcome FROM qtg.worker_heartbeats WHERE worker = 'callback_dispatcher'")
    assert beat["last_outcome"] == "ok"


def test_the_lookout_is_the_senders(monkeypatch: pytest.MonkeyPatch, tick: Tick, database_url: str) -> None:
    """The sensor must see sessions of the role that delivers: others' are hidden from it."""
    lookout = importlib.import_module("resources.delivery")
    asked: list[str] = []
    real = lookout.lookout_for
    monkeypatch.setattr(lookout, "lookout_for", lambda url: asked.append(url) or real(url))
    monkeypatch.setenv("MG_SENDER_DATABASE_URL", database_url + "&application_name=sender")
    tick("pending_outbox")
    assert asked == [database_url + "&application_name=sender"]
    real(asked[0]).close()
