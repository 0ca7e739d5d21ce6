"""Outlives a supervisor that was killed, and stops what it left. `python -m qtg_dagster.host.watchdog HOME PID START`

It waits for the end of its standard input, which only the supervisor holds open: the system closes it, however the
supervisor dies.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from qtg_dagster.host.process_records import load, stop_recorded


def main() -> None:
    """Wait for the supervisor's end, then stop its processes; a later supervisor's are left alone."""
    for quiet in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(quiet, signal.SIG_IGN)
    home, pid, started = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.stdin.read()
    running = load(home)
    if running is not None and (running.supervisor.pid, running.supervisor.started) == (pid, started):
        stop_recorded(home, of_supervisor=running.supervisor)


if __name__ == "__main__":
    main()
