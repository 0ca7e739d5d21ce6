"""Workers forked from a process that has imported already, as QTG's own runs are: a line in, a worker out.

For each line on its input it forks a worker, prints the worker's pid, and prints how it ended when it did.
"""

from __future__ import annotations

import asyncio
import os
import sys

from benchmarks.kill.qtg_worker import main


def serve(url: str, socket: str) -> None:
    """One worker after the other, until the input ends."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(main(url, socket))
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[2:4])
