"""Where an embedded PostgreSQL keeps its data, and as which user it runs.

PostgreSQL refuses to run as root. Root's server therefore runs as `postgres` or `nobody`, and its data stand in the
state folder only where that user can reach it; no parent folder is opened for it, /var/lib is used instead.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.paths import make_private
from qtg_dagster.host.postgres_binaries import SHARED, as_user

_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_BYTES = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Folders of one server. `user` is whom it runs as; None = whoever calls."""

    base: Path
    user: str | None

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def server_log(self) -> Path:
        return self.base / "server.log"

    @property
    def control_log(self) -> Path:
        return self.base / "pg_ctl.log"

    @property
    def sockets(self) -> Path:
        """The socket folder; a short one in the temp folder when ours is too long, or has a comma, for libpq."""
        near = self.base / "run"
        if len(os.fsencode(near / _SOCKET_NAME)) < _SOCKET_BYTES and "," not in str(near):
            return near
        return Path(tempfile.gettempdir()) / f"qtg-{hashlib.sha256(os.fsencode(self.base)).hexdigest()[:16]}"

    @property
    def socket(self) -> Path:
        return self.sockets / _SOCKET_NAME

    @property
    def major(self) -> int | None:
        """The major version that made the data folder; None when there is none yet."""
        version = self.data / "PG_VERSION"
        return int(version.read_text()) if version.is_file() else None

    def prepare(self) -> None:
        """Create the folders, closed to everyone else; raises when one exists and belongs to another user."""
        for folder in (self.base, self.sockets):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._own(folder)
            stat = folder.lstat()
            if folder.is_symlink() or stat.st_uid != self._uid() or stat.st_mode & 0o077:
                raise ConfigurationError(
                    f"embedded PostgreSQL: {folder} must be a folder of user {self.user or self._uid()} "
                    "with mode 0700, but someone else made it: remove it"
                )

    def remove(self) -> None:
        """Delete the data for good."""
        for folder in (self.base, self.sockets):
            if folder.exists():
                shutil.rmtree(folder)

    def _uid(self) -> int:
        return pwd.getpwnam(self.user).pw_uid if self.user else os.geteuid()

    def _own(self, folder: Path) -> None:
        """Hand a folder that root has just made to the server's user."""
        if self.user and not folder.is_symlink() and folder.lstat().st_uid == 0:
            entry = pwd.getpwnam(self.user)
            os.chown(folder, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def place_of(home: Path) -> Place:
    """The place that belongs to the state folder `home`; the choice is remembered in `home/postgres.location`."""
    home = make_private(home).resolve()
    inside = home / "postgres"
    if os.geteuid() != 0:
        return Place(inside, None)
    if inside.is_dir():
        return Place(inside, _owner(inside))
    marker = home / "postgres.location"
    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    if marker.is_file():
        base = Path(marker.read_text().strip())
        if not base.name.startswith(mark):
            raise ConfigurationError(
                f"embedded PostgreSQL: the data of {home} are in {base}, made for a folder of another name. "
                f"Move the folder back, or delete {marker} to start with an empty database"
            )
        return Place(base, _owner(base))
    user = _server_user()
    if _reaches(home, user):
        return Place(inside, user)
    base = SHARED / f"{mark}-{secrets.token_hex(4)}"
    marker.write_text(f"{base}\n")
    return Place(base, user)


def _owner(folder: Path) -> str:
    if not folder.is_dir() or folder.stat().st_uid == 0:
        return _server_user()
    return pwd.getpwuid(folder.stat().st_uid).pw_name


def _server_user() -> str:
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise ConfigurationError("embedded PostgreSQL: root needs a user `postgres` or `nobody`; run as another user")


def _reaches(folder: Path, user: str) -> bool:
    entered = subprocess.run(
        ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)], capture_output=True, check=False, cwd="/", **as_user(user)
    )
    return entered.returncode == 0
