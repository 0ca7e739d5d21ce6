"""Makes `.venv` for `./qtg`. Runs before anything is installed: the standard library only.

`python bootstrap.py ROOT KEY`; KEY names what is installed and is written down when it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(root: Path, key: str) -> int:
    """Install what pyproject.toml and constraints.txt name, unless a simultaneous start has just done it."""
    venv = root / ".venv"
    venv.mkdir(exist_ok=True)
    with (venv / "qtg-lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another start is installing; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = venv / "qtg-installed"
        if stamp.is_file() and stamp.read_text() == key:
            return 0
        stamp.unlink(missing_ok=True)
        python = venv / "bin" / "python"
        if not runs(python, "import pip, sys; assert (3, 11) <= sys.version_info < (3, 15)"):
            for part in ("bin", "lib", "include"):
                shutil.rmtree(venv / part, ignore_errors=True)
            version = ".".join(map(str, sys.version_info[:3]))
            say(f"making .venv with Python {version}")
            if not done([sys.executable, "-m", "venv", str(venv)], root):
                return failed("cannot make .venv; is the venv module complete (Debian: apt install python3-venv)?")
        if not install(python, root):
            return failed("the packages cannot be installed; is the network up, and does the package index answer?")
        draft = venv / "qtg-installed.draft"
        draft.write_text(key)
        draft.replace(stamp)
    return 0


def install(python: Path, root: Path) -> bool:
    """Install by uv, or by pip where there is no uv."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    what = ["--constraint", "constraints.txt", "--editable", ".[dev]"]
    if runs(python, "import uv") or done([*pip, "uv"], root):
        say("installing the packages of constraints.txt with uv (once, a minute at most)")
        # pip compiles what it installs, uv only when told: else the first import of large packages takes seconds.
        uv = [str(python), "-m", "uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
        if done([*uv, *what], root):
            return True
    say("installing the packages of constraints.txt with pip (once, two minutes or so)")
    return done([*pip, *what], root)


def runs(python: Path, code: str) -> bool:
    """True when that Python works and can do `code`."""
    try:
        return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def done(command: list[str], root: Path) -> bool:
    """Run a command in the checkout, showing what it says."""
    return subprocess.run(command, cwd=root, check=False, env={**os.environ, "VIRTUAL_ENV": ""}).returncode == 0


def say(line: str) -> None:
    print(f"qtg: {line}", file=sys.stderr)  # noqa: T201 - the command line's voice before there is one


def failed(line: str) -> int:
    say(line)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
    except PermissionError as error:
        sys.exit(failed(f"{error}; run as the user who owns the checkout, or in a checkout of your own"))
