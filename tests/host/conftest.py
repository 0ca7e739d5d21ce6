"""State folders for tests of the host: under root, reachable by the server's own user."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qtg_dagster.host.postgres import EmbeddedPostgres


@pytest.fixture
def home() -> Iterator[Path]:
    """A short-named state folder."""
    folder = Path(tempfile.mkdtemp(prefix="qtg-host-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server_in(home: Path) -> Iterator[Callable[[Path], EmbeddedPostgres]]:
    """Make embedded servers that are destroyed after the test."""
    made: list[EmbeddedPostgres] = []

    def make(folder: Path = home) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(folder, fast=True))
        return made[-1]

    yield make
    for server in made:
        server.destroy()
