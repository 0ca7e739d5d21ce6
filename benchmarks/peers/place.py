"""Where the peers live: a virtual environment of their own, so that their requirements never meet ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError

REQUIREMENTS = ("dbos>=3.4,<4", "pgqueuer[asyncpg]>=1.6,<2", "procrastinate>=3.10,<4", "psycopg[binary,pool]>=3.3,<4")


def peers_python(home: Path) -> Path:
    """The interpreter of the peers' environment in that folder; made and filled at the first use, from the index."""
    folder = home / "bench-peers"
    python = folder / "bin" / "python"
    made = folder / "made"
    if not made.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ConfigurationError(
                f"the peers could not be installed into {folder}; `qtg bench --no-peers` does without them.\n"
                f"{done.stderr[-2000:]}"
            )
        made.write_text("\n".join(REQUIREMENTS) + "\n")
    return python


def versions(python: Path) -> dict[str, str]:
    """What is installed there."""
    listed = subprocess.run([str(python), "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    pairs = [line.split("==") for line in listed.splitlines() if "==" in line]
    return {name: version for name, version in pairs if name in ("dbos", "pgqueuer", "procrastinate", "asyncpg")}
