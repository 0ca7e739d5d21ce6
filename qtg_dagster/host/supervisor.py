"""Starts processes, waits until each is ready, starts again what dies, and stops them all in reverse order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host import gate
from qtg_dagster.host.locks import exclusive
from qtg_dagster.host.paths import make_private
from qtg_dagster.host.process_records import Record, Running, end_groups, stop_recorded
from qtg_dagster.host.processes import signal_group

_TICK_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0
_LOG_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to run. `ready` is asked until it says True; it must answer within a second or so and not raise."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    ready_seconds: float = 60
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 10


@dataclass(slots=True)
class _Child:
    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    record: Record
    log_offset: int
    begun: float
    deaths: int = 0


class StopAsked(Exception):
    """Someone pressed Ctrl-C or sent SIGTERM."""


class Supervisor:
    """Use as a context manager: entering cleans up after a dead predecessor, leaving stops everything.

    Only one supervisor a state folder; a second raises `ConfigurationError`.
    """

    def __init__(self, home: Path, say: Callable[[str], None]) -> None:
        self.home = home
        self._say = say
        self._groups: list[list[_Child]] = []
        self._stops_asked = 0
        self._stack = ExitStack()
        self._self = Record.of("supervisor", os.getpid(), grace_seconds=15)

    def __enter__(self) -> Self:
        for folder in (make_private(self.home), self.home / "run", self.home / "logs"):
            folder.mkdir(exist_ok=True, mode=0o700)
        with ExitStack() as stack:
            doing = "starting (is another `qtg up` running? stop it with `qtg down`)"
            stack.enter_context(exclusive(self.home / "run" / "up.lock", wait_seconds=1, doing=doing))
            left = stop_recorded(self.home)
            if left:
                self._say(f"stopped what an earlier run left behind: {', '.join(left)}")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                stack.callback(signal.signal, number, signal.signal(number, self._on_signal))
            self._record()
            self._start_watchdog(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.stop_all()
        self._stack.close()

    def start(self, *specs: ProcessSpec) -> None:
        """Start the processes side by side and return when all are ready.

        Raises `ConfigurationError` with the end of the log of one that dies or is not ready in time, and `StopAsked`.
        """
        group: list[_Child] = []
        self._groups.append(group)
        for spec in specs:
            group.append(self._spawn(spec))
            self._record()
            self._open_gate(group[-1])
        for child in group:
            self._await_ready(child)

    def complete(self, name: str, command: tuple[str, ...], env: Mapping[str, str], seconds: float = 120) -> None:
        """Run a process to its end: work whose imports and memory are not to stay in this one.

        Raises `ConfigurationError` with the end of its log when it fails or takes longer, and `StopAsked`.
        """
        child = self._spawn(ProcessSpec(name, command, ready=lambda: True, env=env))
        self._groups.append([child])
        self._record()
        self._open_gate(child)
        while (code := child.process.poll()) is None:
            if time.monotonic() > child.begun + seconds:
                raise ConfigurationError(f"{name} did not end within {seconds:.0f} s.{self._tail(child)}")
            self._tick()
        self._groups.remove([child])
        self._record()
        if code != 0:
            raise ConfigurationError(f"{name} ended with {code}.{self._tail(child)}")

    def watch(self, until: Callable[[], bool] = lambda: False, also: Callable[[], None] = lambda: None) -> None:
        """Start again whatever dies, after a growing pause, until told; `also` is called at every turn.

        Raises `StopAsked` when it is time to stop.
        """
        due: dict[str, float] = {}
        while not until():
            self._tick()
            also()
            for group in self._groups:
                for place, child in enumerate(group):
                    if child.process.poll() is None:
                        continue
                    if child.spec.name not in due:
                        due[child.spec.name] = time.monotonic() + self._mourn(child)
                    elif time.monotonic() >= due[child.spec.name]:
                        del due[child.spec.name]
                        group[place] = self._spawn(child.spec, deaths=child.deaths)
                        self._record()
                        self._open_gate(group[place])

    def stop_all(self) -> None:
        """Stop every process, last started first, each group within its longest grace; a second Ctrl-C kills."""
        while self._groups:
            group = self._groups[-1]
            if group:
                self._say(f"stopping {', '.join(child.spec.name for child in group)}")
                end_groups([child.record for child in group], patient=lambda: self._stops_asked < 2)
            for child in group:
                child.process.wait()
            self._groups.pop()
            self._record()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stops_asked += 1

    def _tick(self) -> None:
        if self._stops_asked:
            raise StopAsked
        time.sleep(_TICK_SECONDS)

    def _start_watchdog(self, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "qtg_dagster.host.watchdog", str(self.home), str(self._self.pid)]
        with self.log_of("watchdog").open("ab") as log:
            watchdog = subprocess.Popen(
                [*command, self._self.started],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        assert watchdog.stdin is not None  # noqa: S101 - a pipe was asked for
        stack.callback(watchdog.wait)
        stack.callback(watchdog.stdin.close)

    def _spawn(self, spec: ProcessSpec, deaths: int = 0) -> _Child:
        log_file = self.log_of(spec.name)
        if log_file.is_file() and log_file.stat().st_size > _LOG_BYTES:
            log_file.replace(log_file.with_suffix(".log.1"))
        with log_file.open("ab") as log:
            offset = log.tell()
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(gate.__file__)), *spec.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **spec.env},
                cwd=spec.cwd,
                start_new_session=True,
            )
        record = Record.of(spec.name, process.pid, spec.stop_signal, spec.grace_seconds)
        return _Child(spec, process, record, offset, time.monotonic(), deaths)

    def _open_gate(self, child: _Child) -> None:
        assert child.process.stdin is not None  # noqa: S101 - a pipe was asked for
        with suppress(BrokenPipeError):  # it died already, which the wait for its readiness reports
            child.process.stdin.write(b"!")
            child.process.stdin.close()

    def _await_ready(self, child: _Child) -> None:
        deadline = child.begun + child.spec.ready_seconds
        while True:
            code = child.process.poll()
            if code is not None:
                raise ConfigurationError(f"{child.spec.name} ended with {code} before it was ready.{self._tail(child)}")
            if child.spec.ready():
                break
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"{child.spec.name} was not ready within {child.spec.ready_seconds:.0f} s.{self._tail(child)}"
                )
            self._tick()
        self._say(f"{child.spec.name} is ready after {time.monotonic() - child.begun:.1f} s")

    def _mourn(self, child: _Child) -> float:
        """Clear away the rest of a dead process's group; returns how long to wait before starting it again."""
        signal_group(child.record.pid, signal.SIGKILL)
        healthy = time.monotonic() - child.begun > 2 * _LONGEST_PAUSE_SECONDS
        child.deaths = 1 if healthy else child.deaths + 1
        pause = min(2.0 ** (child.deaths - 1), _LONGEST_PAUSE_SECONDS)
        self._say(
            f"{child.spec.name} ended with {child.process.returncode}, starting it again in {pause:.0f} s; "
            f"log: {self.log_of(child.spec.name)}"
        )
        return pause

    def log_of(self, name: str) -> Path:
        """The log file of the process of that name."""
        return self.home / "logs" / f"{name}.log"

    def _tail(self, child: _Child, lines: int = 15) -> str:
        log = self.log_of(child.spec.name)
        with log.open("rb") as stream:
            stream.seek(child.log_offset)
            written = stream.read().decode(errors="replace").splitlines()
        return f" Its log {log} ends:\n" + "\n".join(written[-lines:] or ["(it wrote nothing)"])

    def _record(self) -> None:
        records: Sequence[Record] = [child.record for group in self._groups for child in group]
        Running(self._self, tuple(records)).save_in(self.home)
