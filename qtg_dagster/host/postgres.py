"""An embedded PostgreSQL with a life of its own: started once, shared by every process of this state folder.

It is alive when it answers and says that its data folder is ours; a pid proves nothing and is never signalled on its
own. The server stands in its own session, so that Ctrl-C in a terminal does not reach it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.locks import exclusive
from qtg_dagster.host.postgres_binaries import Binaries, as_user, choose, runnable_by, server_environment
from qtg_dagster.host.postgres_place import Place, place_of
from qtg_dagster.host.processes import command_line
from qtg_dagster.store.roles import CREATE_ROLES, ROLES

_START_SECONDS = 120  # crash recovery on a busy disk takes its time
_STOP_SECONDS = 30

# The administrator exists for life-cycle and rescue; everything else connects as an ordinary owner.
_ADMINISTRATOR = "postgres"
_OWNER = "qtg"

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "superuser_reserved_connections": "3",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "jit": "off",  # short statements: compiling them costs more than running them
}
_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_naptime": "10min",
}


class EmbeddedPostgres:
    """The server of one state folder. `fast` gives up durability and is for tests only."""

    def __init__(self, home: Path, fast: bool = False) -> None:
        self.home = home
        self._fast = fast

    @cached_property
    def place(self) -> Place:
        """Where it keeps its data and as whom it runs."""
        return place_of(self.home)

    @property
    def url(self) -> str:
        """`postgresql://` URL of the database `qtg` over the unix socket; valid while the server runs."""
        return self._url(_OWNER, _OWNER)

    def url_of(self, role: str) -> str:
        """The same for one of the roles that only work in the schema (`store/roles.py`)."""
        return self._url(role, _OWNER)

    def serves(self, url: str) -> bool:
        """Whether a plain URL names this server's database, as whichever role."""
        return url in (self.url, *map(self.url_of, ROLES))

    def is_alive(self) -> bool:
        """True when a server answers on our socket and its data folder is ours."""
        import psycopg

        try:
            with self._administrate() as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and os.path.realpath(row[0]) == os.path.realpath(self.place.data)

    def start(self) -> str:
        """Start or find the server and return its URL; safe to call from many processes at once.

        Raises `ConfigurationError` with the log's last lines when it does not come up.
        """
        with self._locked("starting the embedded PostgreSQL"):
            if not self.is_alive():
                self.place.prepare()
                binaries = runnable_by(choose(self.place.major), self.place.user)
                self._initialise(binaries)
                self._write_settings()
                self._bring_up(binaries)
            self._create_owner()
        return self.url

    def stop(self) -> None:
        """Stop the server, rolling back what is open; does nothing when it does not run."""
        with self._locked("stopping the embedded PostgreSQL"):
            if self.place.major is not None and (self.is_alive() or self._postmaster_is_ours()):
                self._shut_down()

    def destroy(self) -> None:
        """Stop the server and delete its data for good."""
        self.stop()
        self.place.remove()
        (self.home / "postgres.location").unlink(missing_ok=True)

    def _locked(self, doing: str) -> Any:
        return exclusive(self.home / "postgres.lock", wait_seconds=_START_SECONDS + _STOP_SECONDS, doing=doing)

    def _url(self, user: str, database: str) -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.place.sockets), safe='')}&port=5432"

    def _administrate(self) -> Any:
        import psycopg

        return psycopg.connect(self._url(_ADMINISTRATOR, "postgres"), autocommit=True, connect_timeout=5)

    def _initialise(self, binaries: Binaries) -> None:
        """Make the data folder under another name first: a crash half-way leaves nothing that looks complete."""
        if self.place.major is not None:
            return
        draft = self.place.base / "data.draft"
        if draft.exists():
            shutil.rmtree(draft)
        made = self._run(
            [
                binaries.program("initdb"),
                "--pgdata",
                str(draft),
                f"--username={_ADMINISTRATOR}",
                "--auth=trust",  # the socket stands in a folder that only the server's user can enter
                "--encoding=UTF8",
                "--no-locale",
                *(["--no-sync"] if self._fast else []),
            ]
        )
        if made != 0:
            raise ConfigurationError(f"embedded PostgreSQL: initdb failed.\n{_tail(self.place.control_log)}")
        with (draft / "postgresql.conf").open("a") as main:
            main.write("include = 'qtg.conf'\n")
        draft.rename(self.place.data)

    def _write_settings(self) -> None:
        folder = str(self.place.sockets).replace('"', '""')
        settings = _SETTINGS | (_FAST if self._fast else {}) | {"unix_socket_directories": f'"{folder}"'}
        lines = [f"{name} = '{text.replace(chr(39), chr(39) * 2)}'\n" for name, text in settings.items()]
        file = self.place.data / "qtg.conf"
        file.write_text("".join(lines))
        file.chmod(0o644)  # root writes it, the server's user reads it

    def _bring_up(self, binaries: Binaries) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if not self._postmaster_is_ours():
                self._disarm_stale_pid()
                self._run(
                    [
                        binaries.program("pg_ctl"),
                        "start",
                        "--wait",
                        f"--timeout={_START_SECONDS}",
                        f"--pgdata={self.place.data}",
                        f"--log={self.place.server_log}",
                    ]
                )
            if self.is_alive():
                return
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"embedded PostgreSQL did not start within {_START_SECONDS} s. "
                    f"Its log {self.place.server_log} ends:\n{_tail(self.place.server_log)}"
                )
            time.sleep(0.2)  # a killed server's last processes are still letting go

    def _postmaster_pid(self) -> int | None:
        try:
            return int((self.place.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None

    def _postmaster_is_ours(self) -> bool:
        """True when the recorded pid is a running server on our data folder, whether or not it answers."""
        pid = self._postmaster_pid()
        return pid is not None and f"-D {self.place.data}" in command_line(pid)

    def _disarm_stale_pid(self) -> None:
        """Keep a stale pid file from blocking the start when its pid is another program's by now.

        The file stays, because PostgreSQL also reads from it whether an orphan still holds the shared memory. Only
        the pid is replaced, by that of pg_ctl's parent, which PostgreSQL never takes for a server.
        """
        pid_file = self.place.data / "postmaster.pid"
        if pid_file.is_file():
            _, newline, rest = pid_file.read_text().partition("\n")
            pid_file.write_text(f"{os.getpid()}{newline}{rest}")
        for left_over in (self.place.socket, Path(f"{self.place.socket}.lock")):
            left_over.unlink(missing_ok=True)

    def _shut_down(self) -> None:
        binaries = runnable_by(choose(self.place.major), self.place.user)
        for mode in ("fast", "immediate"):
            stop = [
                binaries.program("pg_ctl"),
                "stop",
                f"--mode={mode}",
                "--wait",
                f"--timeout={_STOP_SECONDS}",
                f"--pgdata={self.place.data}",
            ]
            if self._run(stop) == 0:
                return
        raise ConfigurationError(
            f"embedded PostgreSQL did not stop: see {self.place.control_log}\n{_tail(self.place.control_log)}"
        )

    def _create_owner(self) -> None:
        with self._administrate() as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [_OWNER]).fetchone():
                connection.execute(f"CREATE ROLE {_OWNER} LOGIN CREATEDB CREATEROLE")
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_OWNER]).fetchone():
                connection.execute(f"CREATE DATABASE {_OWNER} OWNER {_OWNER}")
            connection.execute(CREATE_ROLES)
            connection.execute(f"GRANT {', '.join(ROLES)} TO {_OWNER}")

    def _run(self, command: list[str]) -> int:
        """Run one of PostgreSQL's programs; its words go to a file, since the server keeps its outputs."""
        with self.place.control_log.open("ab") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=server_environment(),
                start_new_session=True,
                check=False,
                timeout=_START_SECONDS + _STOP_SECONDS,
                **as_user(self.place.user),
            )
        return done.returncode


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.is_file() else "(no log)"
