"""What this state folder has running, on disk, so that a later command can stop it.

A pid alone may by now be anybody's: only a pid whose start time is the recorded one is ever signalled.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from qtg_dagster.host.processes import group_lives, signal_group, started_at


@dataclass(frozen=True, slots=True)
class Record:
    """One process that leads a group of its own."""

    name: str
    pid: int
    started: str
    stop_signal: int = signal.SIGTERM
    grace_seconds: float = 10

    @classmethod
    def of(cls, name: str, pid: int, stop_signal: int = signal.SIGTERM, grace_seconds: float = 10) -> Record:
        """Record a process that runs now; a process that has just ended gets a start time that matches nothing."""
        return cls(name, pid, started_at(pid) or "gone", stop_signal, grace_seconds)

    def lives(self) -> bool:
        return started_at(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class Running:
    """The supervisor and its processes, in the order they were started."""

    supervisor: Record
    processes: tuple[Record, ...] = ()

    def save_in(self, home: Path) -> None:
        """Replace the file at once: a reader sees the old or the new, never half of it."""
        file = records_file(home)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=2))
        draft.replace(file)


def records_file(home: Path) -> Path:
    return home / "run" / "processes.json"


def load(home: Path) -> Running | None:
    """What was recorded last; None when nothing was."""
    file = records_file(home)
    if not file.is_file():
        return None
    stored = json.loads(file.read_text())
    return Running(Record(**stored["supervisor"]), tuple(Record(**each) for each in stored["processes"]))


def stop_supervisor(home: Path) -> bool:
    """Ask a running supervisor to stop its processes and itself; False when none runs."""
    running = load(home)
    if running is None or not running.supervisor.lives():
        return False
    os.kill(running.supervisor.pid, running.supervisor.stop_signal)
    bound = sum(each.grace_seconds for each in running.processes) + running.supervisor.grace_seconds
    if not _wait(lambda: not running.supervisor.lives(), bound):
        os.kill(running.supervisor.pid, signal.SIGKILL)
        _wait(lambda: not running.supervisor.lives(), 5)
    return True


def stop_recorded(home: Path, *, of_supervisor: Record | None = None) -> list[str]:
    """Stop what a dead supervisor left behind, last started first; returns the names of what was stopped.

    With `of_supervisor`, only when the records are that supervisor's.
    """
    running = load(home)
    if running is None or (of_supervisor is not None and running.supervisor != of_supervisor):
        return []
    left = [each for each in reversed(running.processes) if each.lives() and os.getpgid(each.pid) == each.pid]
    end_groups(left)
    return [each.name for each in left]


def end_groups(records: Sequence[Record], *, patient: Callable[[], bool] = lambda: True) -> None:
    """Stop whole process groups side by side: each by its signal, killed when its grace or the patience is over."""
    for each in records:
        signal_group(each.pid, each.stop_signal)
    begun = time.monotonic()
    waiting = list(records)
    while waiting:
        for each in list(waiting):
            if _ended(each.pid):
                waiting.remove(each)
            elif time.monotonic() - begun > (each.grace_seconds if patient() else 0):
                signal_group(each.pid, signal.SIGKILL)
                _wait(partial(_ended, each.pid), 5)
                waiting.remove(each)
        time.sleep(0.02)


def _ended(leader: int) -> bool:
    _reap(leader)
    return not group_lives(leader)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # not our child, or reaped


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
