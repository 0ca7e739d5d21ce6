"""Python's compiled form of our own sources, kept beside them so that no process start compiles them again."""

from __future__ import annotations

import compileall
from pathlib import Path

from qtg_dagster.host.paths import project_root


def compile_sources() -> None:
    """Compile what has changed: 0.3 s once, 0.05 s when nothing has.

    A checkout is not compiled by its installation, and where PYTHONDONTWRITEBYTECODE is set, as container images like
    to do, no import ever keeps what it compiled: each start would then pay those 0.3 s. Where the folder cannot be
    written, starts are slower and nothing else.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package, *(project_root() / name for name in ("benchmarks", "tests"))):
        if folder.is_dir():
            compileall.compile_dir(folder, quiet=2)
