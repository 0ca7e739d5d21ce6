"""A whole QTG as a user starts it, and a real browser in front of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

_CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/google-chrome") if Path(path).exists()), None)
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 150


@dataclass(frozen=True, slots=True)
class RunningQtg:
    """A started stack: where its web UI is, and its command line."""

    url: str
    environment: dict[str, str]

    def command(self, *arguments: str) -> str:
        """Run a `qtg` command against it; returns what it printed."""
        command = [sys.executable, "-m", "qtg_dagster", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()


@pytest.fixture(scope="session")
def running_qtg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningQtg]:
    """`qtg up` in a state folder of its own, stopped at the end as by Ctrl-C."""
    home = tmp_path_factory.mktemp("ui") / "home"
    home.mkdir(mode=0o711)
    environment = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DAGSTER_HOME")}
    environment |= {"QTG_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    log = home / "up.log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "qtg_dagster", "up"]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield RunningQtg(_await_start(process, log), environment)
    finally:
        process.terminate()
        process.wait(timeout=90)


def _await_start(process: subprocess.Popen[bytes], log: Path) -> str:
    """The web UI's address, as `qtg up` prints it."""
    deadline = time.monotonic() + START_SECONDS
    while not (found := re.search(r"QTG is up: (\S+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    return found.group(1)


@pytest.fixture
def page() -> Iterator[Page]:
    """An empty page of a headless Chromium."""
    assert _CHROMIUM is not None, "no Chromium here: install Debian's package chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        opened = browser.new_page(viewport={"width": 1500, "height": 1200})
        opened.set_default_timeout(60_000)
        yield opened
        browser.close()
