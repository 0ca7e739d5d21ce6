"""A lock between processes that the operating system frees when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError


@contextmanager
def exclusive(lock_file: Path, *, wait_seconds: float, doing: str) -> Iterator[None]:
    """Hold `lock_file` alone; raises `ConfigurationError` when another process keeps it for `wait_seconds`."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + wait_seconds
        while not _taken(descriptor):
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"{doing}: another process has held {lock_file} for {wait_seconds:.0f} s; see what it is doing"
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
