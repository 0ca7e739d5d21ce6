"""Processes under supervision: readiness, restarts, and that nothing is left behind or wrongly stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.process_records import Record, Running, load, stop_recorded, stop_supervisor
from qtg_dagster.host.processes import command_line, group_lives, started_at
from qtg_dagster.host.supervisor import ProcessSpec, StopAsked, Supervisor

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
# Ignores SIGTERM, and says so when it does.
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
)
# Has a child of its own in its process group.
PARENT = (sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '600'])")


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def always() -> bool:
    return True


def quiet(_line: str) -> None:
    """Say nothing."""


def spec(name: str, command: tuple[str, ...] = SLEEP, **changes: object) -> ProcessSpec:
    return replace(ProcessSpec(name, command, always, grace_seconds=5), **changes)  # type: ignore[arg-type]


def pids(home: Path) -> dict[str, int]:
    running = load(home)
    return {each.name: each.pid for each in running.processes} if running else {}


def test_leaving_stops_everything_last_started_first(home: Path) -> None:
    said: list[str] = []
    with Supervisor(home, said.append) as supervisor:
        supervisor.start(spec("first"))
        supervisor.start(spec("second", PARENT))
        started = pids(home)
        assert all(started_at(pid) for pid in started.values())
    assert not any(group_lives(pid) for pid in started.values())
    assert pids(home) == {}
    assert [line for line in said if line.startswith("stopping")] == ["stopping second", "stopping first"]


def test_a_process_deaf_to_its_signal_is_killed_after_its_grace(home: Path) -> None:
    with Supervisor(home, quiet) as supervisor:
        log = supervisor.log_of("deaf")
        supervisor.start(spec("deaf", STUBBORN, grace_seconds=0.2, ready=lambda: "deaf" in log.read_text()))
        pid = pids(home)["deaf"]
    assert started_at(pid) is None


def test_not_ready_in_time_names_the_log_and_shows_its_end(home: Path) -> None:
    with Supervisor(home, quiet) as supervisor:
        log = supervisor.log_of("slow")
        log.write_text("words of an earlier run\n")
        slow = spec("slow", STUBBORN, ready=lambda: False, ready_seconds=2, grace_seconds=0.1)
        with pytest.raises(ConfigurationError, match="slow was not ready within 2 s") as refusal:
            supervisor.start(slow)
    assert str(log) in str(refusal.value)
    assert str(refusal.value).endswith("deaf")
    assert "earlier" not in str(refusal.value)


def test_a_process_that_dies_early_is_reported_at_once(home: Path) -> None:
    dying = (sys.executable, "-c", "raise SystemExit('no such port')")
    with (
        Supervisor(home, quiet) as supervisor,
        pytest.raises(ConfigurationError, match=r"(?s)ended with 1.*no such port"),
    ):
        supervisor.start(spec("dying", dying, ready=lambda: False, ready_seconds=60))


# Kills the process, and stops the supervisor once another one stands in the records.
KILLING = """
import json, os, signal, sys, time
file, first, supervisor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.kill(first, signal.SIGKILL)
for _ in range(3000):
    if json.load(open(file))["processes"][0]["pid"] != first:
        break
    time.sleep(0.01)
os.kill(supervisor, signal.SIGTERM)
"""


def test_what_dies_is_started_again_until_the_stop_is_asked_for(home: Path) -> None:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)

    with Supervisor(home, say) as supervisor:
        supervisor.start(spec("worker"))
        first = pids(home)["worker"]
        file = home / "run" / "processes.json"
        watcher = subprocess.Popen([sys.executable, "-c", KILLING, str(file), str(first), str(os.getpid())])
        with pytest.raises(StopAsked):
            supervisor.watch()
        watcher.wait()
        second = pids(home)["worker"]
    assert second != first
    assert any("starting it again" in line for line in said)
    assert started_at(second) is None


SUPERVISING = """
import sys
from pathlib import Path
from qtg_dagster.host.supervisor import ProcessSpec, StopAsked, Supervisor
parent = (sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '600'])")
with Supervisor(Path(sys.argv[1]), lambda line: None) as supervisor:
    supervisor.start(ProcessSpec("a", parent, lambda: True), ProcessSpec("b", parent, lambda: True))
    print("up", flush=True)
    try:
        supervisor.watch()
    except StopAsked:
        pass
"""


def supervising(home: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", SUPERVISING, str(home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.stdout.close()
    return process


def test_nothing_outlives_a_supervisor_that_is_killed(home: Path) -> None:
    supervisor = supervising(home)
    started = pids(home)
    assert len(started) == 2
    supervisor.kill()
    supervisor.wait()
    until(lambda: not any(group_lives(pid) for pid in started.values()))


def test_after_everything_was_killed_the_next_supervisor_works(home: Path) -> None:
    supervisor = supervising(home)
    started = pids(home)
    for pid in (supervisor.pid, *started.values()):
        os.kill(pid, signal.SIGKILL)
    supervisor.wait()
    with Supervisor(home, quiet) as successor:
        successor.start(spec("fresh"))
        assert set(pids(home)) == {"fresh"}


def test_the_next_supervisor_stops_what_a_killed_one_left(home: Path) -> None:
    left = subprocess.Popen(SLEEP, start_new_session=True)
    Running(Record("supervisor", 2**22 + 1, "gone"), (Record.of("orphan", left.pid),)).save_in(home)
    said: list[str] = []
    with Supervisor(home, said.append):
        assert said == ["stopped what an earlier run left behind: orphan"]
    left.wait()


def test_down_stops_a_running_supervisor_and_its_processes(home: Path) -> None:
    supervisor = supervising(home)
    started = pids(home)
    assert stop_supervisor(home)
    supervisor.wait()
    assert not any(group_lives(pid) for pid in started.values())
    assert not stop_supervisor(home)


def test_a_recycled_pid_is_not_signalled(home: Path) -> None:
    bystander = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        recycled = replace(Record.of("ours once", bystander.pid), started="1")
        Running(replace(recycled, name="supervisor"), (recycled,)).save_in(home)
        assert not stop_supervisor(home)
        assert stop_recorded(home) == []
        assert started_at(bystander.pid) is not None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_second_supervisor_is_refused(home: Path) -> None:
    with Supervisor(home, quiet), pytest.raises(ConfigurationError, match="qtg down"):
        Supervisor(home, quiet).__enter__()


def test_a_process_runs_only_once_it_is_recorded(home: Path) -> None:
    marker = home / "ran"
    gated = subprocess.Popen(
        [sys.executable, str(Path(__file__).parents[2] / "qtg_dagster/host/gate.py"), "touch", str(marker)],
        stdin=subprocess.PIPE,
    )
    assert gated.stdin is not None
    gated.stdin.close()
    assert gated.wait() == 1
    assert not marker.exists()


def test_a_process_is_known_by_its_start_time_and_arguments() -> None:
    me = os.getpid()
    assert started_at(me) == started_at(me)
    child = subprocess.Popen(SLEEP)
    until(lambda: command_line(child.pid) == " ".join(SLEEP))  # once it runs what it was started for
    child.kill()
    until(lambda: started_at(child.pid) is None)  # a zombie does not run
    child.wait()
    assert command_line(child.pid) == ""


def test_logs_and_records_are_for_their_owner_only(tmp_path: Path) -> None:
    with Supervisor(tmp_path / "home", say=lambda _: None):
        modes = {(tmp_path / "home" / name).stat().st_mode & 0o777 for name in ("run", "logs")}
    assert modes == {0o700}
