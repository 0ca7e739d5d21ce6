"""Starts the stand-in as a process of its own, for tests and the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from qtg_dagster.domain.errors import ConfigurationError


class StandIn:
    """One process of the stand-in; may be killed and started again, on the same port and ledger."""

    def __init__(self, config: Path, *, port: int = 0) -> None:
        self._config = config
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self.log = config.with_suffix(".log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Root URL, without a venue's prefix."""
        return f"http://127.0.0.1:{self._port}"

    def venue_url(self, venue: str) -> str:
        """What stands for https://api.binance.com."""
        return f"{self.address}/{venue}"

    def start(self, environment: Mapping[str, str] | None = None) -> str:
        """Start and wait until it listens; returns the address. Raises `ConfigurationError` with its last words."""
        command = [sys.executable, "-m", "qtg_dagster.sandbox.exchange"]
        command += ["--config", str(self._config), "--port", str(self._port)]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **(environment or {})}
            )
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise ConfigurationError(f"exchange stand-in did not start: {self.log.read_text()[-2000:]}")
        self._port = int(line.rsplit(":", 1)[1])
        return self.address

    def wait(self, seconds: float = 30) -> int:
        """Wait for the process to end; returns its exit code, negative for a signal."""
        if self._process is None:
            raise RuntimeError("the stand-in was not started")
        return self._process.wait(seconds)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
        self._end()

    def stop(self) -> None:
        """End it in good order."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.wait(10)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
