"""Facts about other processes, from /proc on Linux and `ps` elsewhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc/self/stat").exists()


def started_at(pid: int) -> str | None:
    """When the process started, comparable only with itself; None when it is gone or a zombie.

    A pid is recycled, a pid together with its start time is not.
    """
    if _PROC:
        try:
            # The command in brackets may hold spaces and brackets: split after the last one.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else fields[19]
    shown = _ps(pid, "stat=,lstart=")
    return None if not shown or shown.startswith("Z") else shown.partition(" ")[2].strip()


def command_line(pid: int) -> str:
    """The process's arguments joined by spaces; empty when it is gone, a zombie, or not ours to see."""
    if _PROC:
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return ""
        return raw.replace(b"\0", b" ").decode(errors="replace").strip()
    return _ps(pid, "command=")


def _ps(pid: int, columns: str) -> str:
    shown = subprocess.run(["ps", "-o", columns, "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()


def group_lives(leader: int) -> bool:
    """True while any process of the group that `leader` founded still runs; zombies do not count."""
    if not _PROC:
        try:
            os.killpg(leader, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True
    return any(_group_of(stat) == leader for stat in Path("/proc").glob("[0-9]*/stat"))


def signal_group(leader: int, number: int) -> None:
    """Signal every process of the group; a group that is gone is fine."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return


def _group_of(stat: Path) -> int | None:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[2])
