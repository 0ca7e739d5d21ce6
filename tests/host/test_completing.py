"""Work that a supervisor has done in a process of its own, to its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.process_records import load
from qtg_dagster.host.processes import started_at
from qtg_dagster.host.supervisor import StopAsked, Supervisor


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


@pytest.fixture
def supervisor(home: Path) -> Iterator[Supervisor]:
    with Supervisor(home, lambda _line: None) as running:
        yield running


def recorded(home: Path) -> dict[str, int]:
    running = load(home)
    return {each.name: each.pid for each in running.processes} if running else {}


def test_its_work_is_done_with_the_variables_given_and_nothing_is_left_to_watch(
    supervisor: Supervisor, home: Path
) -> None:
    writing = "import os, pathlib; pathlib.Path(os.environ['WHERE']).write_text('done')"
    supervisor.complete("write", python(writing), {"WHERE": str(home / "written")})
    assert (home / "written").read_text() == "done"
    assert recorded(home) == {}


def test_a_failure_is_told_with_what_it_wrote(supervisor: Supervisor, home: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)write ended with 3.*the disk is full"):
        supervisor.complete("write", python("print('the disk is full'); raise SystemExit(3)"), {})
    assert recorded(home) == {}


def test_one_that_does_not_end_is_told_and_stopped_with_the_rest(supervisor: Supervisor, home: Path) -> None:
    with pytest.raises(ConfigurationError, match="did not end within 0 s"):
        supervisor.complete("sleep", python("import time; time.sleep(600)"), {}, seconds=0.2)
    pid = recorded(home)["sleep"]
    supervisor.stop_all()
    assert started_at(pid) is None


def test_ctrl_c_meanwhile_is_heard_at_once_and_the_work_is_stopped(supervisor: Supervisor, home: Path) -> None:
    def press() -> None:
        while "sleep" not in recorded(home):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press, daemon=True)
    pressing.start()
    with pytest.raises(StopAsked):
        supervisor.complete("sleep", python("import time; time.sleep(600)"), {})
    pressing.join(timeout=30)
    pid = recorded(home)["sleep"]
    supervisor.stop_all()
    assert started_at(pid) is None
