"""Where things live: the project root and the one state folder of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def project_root() -> Path:
    """The checkout that this package runs from; the current folder when it was installed as a wheel."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def state_home() -> Path:
    """The state folder: `QTG_HOME`, else `.qtg` in the project root. Absolute; not created here."""
    chosen = os.environ.get("QTG_HOME", "")
    return Path(chosen).expanduser().resolve() if chosen else project_root() / ".qtg"


def make_private(folder: Path) -> Path:
    """Create a folder that others cannot list; root's can be passed through, for the server's own user."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o711 if os.geteuid() == 0 else 0o700)
    return folder
