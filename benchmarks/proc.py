"""Processes as Linux's /proc shows them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; its CPU time includes children that it has waited for."""

    pid: int
    parent: int
    session: int
    command: str
    cpu_seconds: float
    rss_mb: float
    pss_mb: float


def processes() -> list[Process]:
    """All processes but zombies; one that ends while it is read is left out."""
    found: list[Process] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            process = _read(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if process is not None:
            found.append(process)
    return found


def _read(folder: Path) -> Process | None:
    head, _, tail = (folder / "stat").read_text().rpartition(")")
    fields = tail.split()  # state, ppid, pgrp, session, ...: numbered from 3 in proc(5)
    if fields[0] in "ZX":
        return None
    memory = _memory_mb(folder)
    return Process(
        pid=int(folder.name),
        parent=int(fields[1]),
        session=int(fields[3]),
        command=head.partition("(")[2],
        cpu_seconds=sum(map(int, fields[11:15])) / _TICKS,
        rss_mb=memory.get("Rss:", 0.0),
        pss_mb=memory.get("Pss:", 0.0),
    )


def _memory_mb(folder: Path) -> dict[str, float]:
    """Empty for what another user runs and for kernel threads."""
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
    except PermissionError:
        return {}
    return {name: int(kilobytes) / 1024 for name, kilobytes, *_ in map(str.split, lines)}
