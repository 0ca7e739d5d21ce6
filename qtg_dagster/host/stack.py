"""What `qtg up` runs, in order: database, migrations, sandbox, one code server, web UI and daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.bytecode import compile_sources
from qtg_dagster.host.dagster_home import prepare_dagster_home
from qtg_dagster.host.database import DatabaseUrls
from qtg_dagster.host.environment import shared_environment
from qtg_dagster.host.paths import project_root
from qtg_dagster.host.ports import remembered_port
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.host.postgres_watch import PostgresWatch
from qtg_dagster.host.readiness import answers_http, daemon_beats, serves_code
from qtg_dagster.host.supervisor import ProcessSpec, StopAsked, Supervisor
from qtg_dagster.settings import Settings
from qtg_dagster.store.urls import plain_url

_WEB_PORT = 3000
# A run's start holds one of the code server's threads until the child reports.
_CODE_SERVER_WORKERS = 32
# glibc gives each thread an arena of its own, and Dagster's processes have many threads that do little.
_FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}

#: Starts further processes under the supervisor, for this state folder.
Extension = Callable[[Supervisor, Path], None]


class Guest(Protocol):
    """Something that runs beside the stack once all of it is ready, in this process."""

    def begin(self) -> None:
        """Start, and return at once."""
        ...

    def wants_to_leave(self) -> bool:
        """Whether everything is to be stopped now."""
        ...

    def end(self) -> None:
        """Stop within a moment; called before anything of the stack stops."""
        ...


@dataclass(frozen=True, slots=True)
class Stack:
    """All processes of one state folder. `extensions` come after the database and before Dagster."""

    home: Path
    settings: Settings
    say: Callable[[str], None]
    web_port: int | None = None
    extensions: tuple[Extension, ...] = ()

    def run(self, guest: Guest | None = None) -> None:
        """Run until SIGINT, SIGTERM or the guest's leave, then stop everything in reverse order, the database last."""
        compile_sources()
        server = self._embedded()
        with Supervisor(self.home, self.say) as supervisor, ExitStack() as leaving, suppress(StopAsked):
            try:
                web = self._start(supervisor, server)
                self.say(f"QTG is up: {web} (state and logs in {self.home}; Ctrl-C stops it)")
                if guest is not None:
                    guest.begin()
                    leaving.callback(guest.end)
                supervisor.watch(
                    until=guest.wants_to_leave if guest else lambda: False,
                    also=PostgresWatch(server, self.say).look if server is not None else lambda: None,
                )
            finally:
                leaving.close()
                supervisor.stop_all()
                if server is not None:
                    self.say("stopping postgresql")
                    server.stop()

    def _embedded(self) -> EmbeddedPostgres | None:
        """The embedded server; None when DATABASE_URL names another one (our own may stand in it, from `qtg env`)."""
        server = EmbeddedPostgres(self.home)
        given = self.settings.database_url
        return server if not given or server.serves(plain_url(given)) else None

    def _start(self, supervisor: Supervisor, server: EmbeddedPostgres | None) -> str:
        if server is not None:
            server.start()
        urls = DatabaseUrls.of(server) if server is not None else DatabaseUrls.given(self.settings)
        self.say(f"postgresql is ready ({'embedded' if server is not None else 'DATABASE_URL'})")
        supervisor.complete("migrate", _python("qtg_dagster", "migrate"), shared_environment(self.home, urls))
        self.say("the database is at the newest migration")
        for extend in self.extensions:
            extend(supervisor, self.home)
        environment = {**shared_environment(self.home, urls), **_FEW_ARENAS}
        code_port = remembered_port(self.home, "code-server")
        web_port = remembered_port(self.home, "webserver", self.web_port or _WEB_PORT)
        workspace = prepare_dagster_home(self.home, code_port)
        seeding = _seed(environment)
        if self.settings.start_paused:  # nothing may be there to start a node before the breaker stands
            _await_seeding(seeding)
        supervisor.start(code_server(code_port, environment))
        supervisor.start(webserver(web_port, workspace, environment), daemon(urls.dagster, workspace, environment))
        if not self.settings.start_paused:
            _await_seeding(seeding)
        return f"http://127.0.0.1:{web_port}"


def code_server(port: int, environment: Mapping[str, str]) -> ProcessSpec:
    """The one process that holds QTG's definitions and starts its runs."""
    options = ["-m", "qtg_dagster.definitions", "--location-name", "qtg", "--host", "127.0.0.1", "--port", str(port)]
    options += ["--max-workers", str(_CODE_SERVER_WORKERS)]
    return ProcessSpec(
        "code-server",
        _python("qtg_dagster.host.code_server", "api", "grpc", *options),
        serves_code(port),
        env=environment,
        cwd=project_root(),
        ready_seconds=180,
        grace_seconds=30,  # its runs finish what is in flight
    )


def webserver(port: int, workspace: Path, environment: Mapping[str, str]) -> ProcessSpec:
    """Dagster's web UI."""
    return ProcessSpec(
        "webserver",
        _python("dagster_webserver", "--host", "127.0.0.1", "--port", str(port), "--workspace", str(workspace)),
        answers_http(f"http://127.0.0.1:{port}/server_info"),
        env=environment,
        cwd=project_root(),
        ready_seconds=180,
    )


def daemon(url: str, workspace: Path, environment: Mapping[str, str]) -> ProcessSpec:
    """Dagster's daemon: sensors, schedules, run monitoring."""
    return ProcessSpec(
        "daemon",
        _python("dagster._daemon", "run", "--workspace", str(workspace)),
        daemon_beats(url, datetime.now(UTC)),
        env=environment,
        cwd=project_root(),
        ready_seconds=180,
    )


def _seed(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Write the rows that must stand before the first work, beside the start of Dagster."""
    return subprocess.Popen(
        _python("qtg_dagster", "seed"),
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _await_seeding(seeding: subprocess.Popen[str]) -> None:
    output, _ = seeding.communicate(timeout=120)
    if seeding.returncode != 0:
        raise ConfigurationError(f"QTG is not fit to start:\n{output.strip()}")


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    """Run a module rather than its script: a script's first line breaks in a path with spaces."""
    return (sys.executable, "-m", module, *arguments)
