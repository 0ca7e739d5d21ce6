"""A drain as Dagster runs it, in a process of its own, ended from outside while a submit is in flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from qtg_dagster.host.database import dagster_url
from qtg_dagster.host.paths import project_root
from tests.orchestration.shapes import Ask, Rows

_RUN = """
import dagster as dg
from tests.orchestration.location import defs
def job():
    return defs.resolve_job_def("dispatch")
if __name__ == "__main__":
    with dg.DagsterInstance.get() as instance:
        dg.execute_job(dg.reconstructable(job), instance=instance)
"""


def until(found: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """The first true answer within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not in {seconds} s: {what}")


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder by which the executor tells that a submit has begun, and is told to end it."""
    folder = tmp_path / "gate"
    folder.mkdir()
    monkeypatch.setenv("QTG_TEST_GATE", str(folder))
    return folder


@pytest.fixture
def dagster_home(
    location: ModuleType, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """An instance that two processes share, on the test's database."""
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((project_root() / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("MG_DRAIN_LINGER_SECONDS", "600")  # it must not end by itself
    monkeypatch.setenv("QTG_DAGSTER_DATABASE_URL", dagster_url(database_url))
    with dg.DagsterInstance.get() as instance:
        yield instance


@pytest.fixture
def drain(
    gate: Path, approved: str, dagster_home: dg.DagsterInstance, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A dispatch run whose submit is in flight."""
    program = tmp_path / "run_dispatch.py"
    program.write_text(_RUN)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONPATH": str(project_root())},
            stdout=log,
            stderr=log,
        )
    try:
        until((gate / "begun").exists, (tmp_path / "log").read_text)
        yield process
    finally:
        process.kill()
        process.wait()


def test_termination_finishes_what_is_in_flight_and_the_run_ends_canceled(
    gate: Path, drain: subprocess.Popen[bytes], dagster_home: dg.DagsterInstance, rows: Rows
) -> None:
    [run] = dagster_home.get_runs()
    dagster_home.report_run_canceling(run)
    drain.send_signal(signal.SIGTERM)
    (gate / "go").touch()
    drain.wait(60)
    [run] = dagster_home.get_runs()
    assert run.status is dg.DagsterRunStatus.CANCELED
    [node] = rows("SELECT node_state, runner_id FROM qtg.movement_request_nodes WHERE node_key = 'move'")
    assert node == {"node_state": "SUBMITTED", "runner_id": None}
    [runner] = rows("SELECT end_reason FROM qtg.runners")
    assert runner["end_reason"] == "finished"


def test_a_run_that_somebody_marked_as_ended_ends_its_drain(
    gate: Path, drain: subprocess.Popen[bytes], dagster_home: dg.DagsterInstance, rows: Rows
) -> None:
    """As after a code server died: termination cannot reach the process, and the page says CANCELED."""
    [run] = dagster_home.get_runs()
    dagster_home.report_run_canceled(run)
    (gate / "go").touch()
    drain.wait(60)
    assert rows("SELECT 1 FROM qtg.runners WHERE ended_at IS NULL") == []


def test_a_killed_drain_leaves_the_node_to_recovery_and_the_slot_free(
    drain: subprocess.Popen[bytes], rows: Rows, ask: Ask
) -> None:
    from qtg_dagster.store.slots import slot_state

    drain.kill()
    drain.wait(60)

    def free() -> bool:
        return not ask(lambda p: slot_state(p.database, "dispatch", p.settings.network_class)).held

    until(free, "the slot is free")
    [node] = rows("SELECT node_state FROM qtg.movement_request_nodes WHERE node_key = 'move'")
    assert node["node_state"] == "SUBMITTING"
