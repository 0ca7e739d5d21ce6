"""From an entry of the inventory to an executor of the platform, and back out by `qtg executor serve`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli
from qtg_dagster.composition import open_platform
from qtg_dagster.domain.contract import HealthState, ResultStatus
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.executors.contract import serialization_key, submit_grace
from qtg_dagster.executors.remote.executor import RemoteExecutor
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import Settings
from tests.executors.remote.conftest import Connect
from tests.executors.remote.orders import KEY, SECRET, order

HOSTED = "exec.cex.withdrawal_observe"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_SECRET", SECRET.expose())


def inventory(url: str, key: str = KEY, **entry: Any) -> Inventory:
    return Inventory.model_validate({"executors": {key: {"url": url, "secret": {"env": "EXAMPLE_SECRET"}, **entry}}})


async def test_an_entry_is_an_executor_of_the_platform(service: str, database_url: str) -> None:
    entries = inventory(service, submit_grace_seconds=67, serialization_key="example", timeouts={"submit": 3})
    async with open_platform(Settings(database_url=database_url), inventory=entries) as platform:
        remote = platform.executors.resolve(KEY)
        assert isinstance(remote, RemoteExecutor)
        assert submit_grace(remote) == 67
        assert serialization_key(remote, {}) == "example"
        assert (await remote.observe(order())).status is ResultStatus.COMPLETED
        report = await remote.health()
        assert report is not None
        assert report.health_state is HealthState.DEGRADED  # the book has no key
    assert "secret" not in repr(remote).lower()


@pytest.mark.parametrize(
    ("url", "entry", "problem"),
    [
        ("http://example.org", {}, rf"executors.{KEY}.url: example.org is another machine; use https"),
        ("https://example.org", {"ca_file": "/nowhere"}, "ca_file: /nowhere is not"),
        ("https://example.org", {"secret": {"env": "UNSET_SECRET"}}, rf"executors.{KEY}.secret: the environment"),
    ],
)
async def test_an_entry_that_is_not_fit_stops_the_start(
    url: str, entry: dict[str, Any], problem: str, database_url: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        async with open_platform(Settings(database_url=database_url), inventory=inventory(url, **entry)):
            raise RuntimeError("it started")


async def test_a_lanes_own_key_is_taken(database_url: str) -> None:
    entries = inventory("https://example.org", key=HOSTED)
    with pytest.raises(ConfigurationError, match="registered twice"):
        async with open_platform(Settings(database_url=database_url), inventory=entries):
            raise RuntimeError("it started")


def serve(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), ["executor", "serve", HOSTED, *words])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--secret-env", "EXAMPLE_SECRET", "--host", "0.0.0.0"), "open to other machines"),  # noqa: S104
        (("--secret-env", "UNSET_SECRET"), "UNSET_SECRET is missing or empty"),
        (("--secret-env", "EXAMPLE_SECRET", "--tls-cert", "cert.pem"), "together"),
    ],
)
def test_a_service_that_is_not_safe_does_not_start(words: tuple[str, ...], problem: str) -> None:
    refused = serve(*words)
    assert isinstance(refused.exception, ConfigurationError)
    assert problem in str(refused.exception)


async def test_a_lane_is_served_by_a_command_until_it_is_told_to_stop(
    database_url: str, tmp_path: Path, connect: Connect
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "qtg_dagster", "executor", "serve", HOSTED),
        *("--port", "0", "--secret-env", "EXAMPLE_SECRET"),
        env={**os.environ, "DATABASE_URL": database_url, "QTG_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        said = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert said.startswith(f"serving {HOSTED} on http://127.0.0.1:")
        remote = connect(said.rpartition(" ")[2], key=HOSTED, terms=Terms(submit_grace_seconds=60))
        report = await remote.health()
        assert report.health_state is not HealthState.DOWN, report.detail
        problem = await remote.preflight(order())
        assert problem is not None
        assert (problem.status, problem.evidence["field"]) == (ResultStatus.REJECTED, "config.venue")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
