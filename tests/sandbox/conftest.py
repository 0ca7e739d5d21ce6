"""The sandbox chain as its own process, in a folder of the test's own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from qtg_dagster.host.node_tools import anvil_binary
from qtg_dagster.host.paths import state_home
from qtg_dagster.sandbox.faucet import Faucet


@dataclass
class ChainProcess:
    """A running sandbox chain."""

    home: Path
    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@pytest.fixture
def start_chain(tmp_path: Path) -> Iterator[Callable[[], ChainProcess]]:
    """Start (again) the chain of this test's state folder; blocks come quickly."""
    anvil_binary()
    running: list[ChainProcess] = []
    # The state folder of the tests must not be the one the node packages are installed in.
    environment = os.environ | {"QTG_HOME": str(state_home())}

    def start() -> ChainProcess:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "qtg_dagster.sandbox.chain", "--home", str(tmp_path / "sandbox" / "chain")]
        command += ["--port", str(port), "--block-seconds", "0.2"]
        chain = ChainProcess(tmp_path, f"http://127.0.0.1:{port}", subprocess.Popen(command, env=environment))
        running.append(chain)
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert chain.process.poll() is None, "the chain ended"
            assert time.monotonic() < deadline, "the chain does not listen"
            time.sleep(0.01)
        return chain

    yield start
    for chain in running:
        if chain.process.poll() is None:
            chain.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def chain(start_chain: Callable[[], ChainProcess]) -> ChainProcess:
    return start_chain()


@pytest.fixture
def faucet_at() -> Iterator[Callable[[str], Faucet]]:
    faucets: list[Faucet] = []

    def make(url: str) -> Faucet:
        faucets.append(Faucet(url, 31337))
        return faucets[-1]

    yield make
    for faucet in faucets:
        faucet.close()


@pytest.fixture
def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
