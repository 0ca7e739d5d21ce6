"""Run as a script: becomes the given command once its parent has recorded it; ends if the parent dies first.

Without the wait, a supervisor killed between starting a process and recording it would leave one nobody knows.
"""

from __future__ import annotations

import os
import sys


def main(command: list[str]) -> None:
    """Wait for one byte on standard input, then replace this process with `command`."""
    if os.read(0, 1) != b"!":
        sys.exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.execvp(command[0], command)  # noqa: S606 - a list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
