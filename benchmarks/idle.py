"""What `qtg up` costs with nothing to do: `python -m benchmarks.idle --home DIR [--json FILE]`. Linux only.

Measures what runs in that state folder; starts it there first, and stops it afterwards, when nothing does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.proc import Process, processes
from qtg_dagster.host.process_records import Running, load
from qtg_dagster.host.processes import started_at

#: Everything together, on a machine of two cores.
CPU_PERCENT_BAR = 15.0
MEMORY_MB_BAR = 900.0
_SAMPLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Cost:
    """One group of processes: CPU in percent of one core; memory in MB, the most that was seen at once."""

    processes: int
    cpu_percent: float
    rss_mb: float
    pss_mb: float


def running_in(home: Path) -> Running | None:
    """What runs in the state folder now; None when its supervisor does not live."""
    running = load(home)
    return running if running is not None and running.supervisor.lives() else None


@contextmanager
def stack_in(home: Path) -> Iterator[Running]:
    """The stack of that state folder, started for the time of the block when it is not running."""
    running = running_in(home)
    if running is not None:
        yield running
        return
    environment = {name: text for name, text in os.environ.items() if name not in ("DATABASE_URL", "MG_INVENTORY_FILE")}
    up = subprocess.Popen(
        [sys.executable, "-m", "qtg_dagster", "up"],
        env={**environment, "QTG_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert up.stdout is not None
    try:
        for line in up.stdout:
            print(line, end="", file=sys.stderr)
            if line.startswith("QTG is up"):
                break
        running = running_in(home)
        if running is None:
            sys.exit(f"qtg up did not come up in {home}")
        yield running
    finally:
        up.terminate()
        up.communicate(timeout=90)


def groups_of(running: Running, postmaster: int | None) -> dict[str, list[Process]]:
    """Everything that runs for this state folder, by what it is; short-lived runs count to their fork server."""
    leaders = {record.pid: record.name for record in running.processes}
    found: dict[str, list[Process]] = {}
    for process in processes():
        if process.pid == running.supervisor.pid:
            name = "supervisor"
        elif process.parent == running.supervisor.pid and process.pid not in leaders:
            name = "watchdog"
        elif postmaster is not None and postmaster in (process.pid, process.parent):
            name = "postgresql"
        elif process.session in leaders:
            name = _part_of(leaders[process.session], process)
        else:
            continue
        found.setdefault(name, []).append(process)
    return found


def _part_of(leader: str, process: Process) -> str:
    if process.pid == process.session:
        return leader
    return f"{leader}: {'fork server and runs' if leader == 'code-server' else process.command}"


def postmaster_of(home: Path) -> int | None:
    """The embedded server's pid; None when the stack uses another database."""
    file = home / "postgres" / "data" / "postmaster.pid"
    pid = int(file.read_text().split()[0]) if file.is_file() else None
    return pid if pid is not None and started_at(pid) is not None else None


def measure(home: Path, running: Running, seconds: float) -> dict[str, Cost]:
    """The cost of each group, and of all together as `total`, over that time."""
    postmaster = postmaster_of(home)
    first = groups_of(running, postmaster)
    begun = time.monotonic()
    samples = [first]
    while (left := begun + seconds - time.monotonic()) > 0:
        time.sleep(min(left, _SAMPLE_SECONDS))
        samples.append(groups_of(running, postmaster))
    elapsed = time.monotonic() - begun
    costs = {name: _cost(name, samples, elapsed) for name in samples[-1]}
    everything = [{"total": [one for group in sample.values() for one in group]} for sample in samples]
    return {**costs, "total": _cost("total", everything, elapsed)}


def _cost(name: str, samples: list[dict[str, list[Process]]], elapsed: float) -> Cost:
    seen = [sample.get(name, []) for sample in samples]
    # A process that ended in between has handed its time to the parent that waited for it, in the same group.
    used = sum(one.cpu_seconds for one in seen[-1]) - sum(one.cpu_seconds for one in seen[0])
    return Cost(
        len(seen[-1]),
        round(100 * used / elapsed, 2),
        round(max(sum(one.rss_mb for one in group) for group in seen), 1),
        round(max(sum(one.pss_mb for one in group) for group in seen), 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--home", type=Path, required=True, help="state folder")
    parser.add_argument("--settle", type=float, default=180, help="seconds to leave it alone first")
    parser.add_argument("--seconds", type=float, default=60, help="seconds to measure")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    given = parser.parse_args()
    home = given.home.resolve()
    with stack_in(home) as running:
        time.sleep(given.settle)
        costs = measure(home, running, given.seconds)
    print(f"{'':34}{'processes':>10}{'CPU %':>9}{'RSS MB':>9}{'PSS MB':>9}")
    for name, cost in costs.items():
        print(f"{name:34}{cost.processes:>10}{cost.cpu_percent:>9.2f}{cost.rss_mb:>9.1f}{cost.pss_mb:>9.1f}")
    total = costs["total"]
    met = total.cpu_percent < CPU_PERCENT_BAR and total.pss_mb < MEMORY_MB_BAR
    print(f"bar: {CPU_PERCENT_BAR:.0f} % of one core and {MEMORY_MB_BAR:.0f} MB in all: {'met' if met else 'missed'}")
    if given.json is not None:
        figures = {name: {key: getattr(cost, key) for key in cost.__slots__} for name, cost in costs.items()}
        given.json.write_text(json.dumps({"bar_met": met, "groups": figures}, indent=2) + "\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
