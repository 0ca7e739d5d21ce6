"""`qtg up` for real: every process, the definitions in the web UI, and nothing left after `qtg down`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from qtg_dagster.host.dagster_home import prepare_dagster_home
from qtg_dagster.host.database import DatabaseUrls, dagster_url
from qtg_dagster.host.environment import shared_environment
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.host.process_records import load
from qtg_dagster.host.processes import started_at
from qtg_dagster.host.stack import Stack
from qtg_dagster.settings import Settings
from qtg_dagster.store.roles import APP


def qtg(home: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: text for name, text in os.environ.items() if name not in ("DATABASE_URL", "MG_INVENTORY_FILE")}
    return subprocess.Popen(
        [sys.executable, "-m", "qtg_dagster", *arguments],
        env={**environment, "QTG_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
    )


@pytest.mark.timeout(400)
def test_up_runs_dagster_on_its_own_database_and_down_leaves_nothing(
    server_in: Callable[[], EmbeddedPostgres], home: Path
) -> None:
    server = server_in()
    up = qtg(home, "up", "--no-sandbox", "--paused")
    assert up.stdout is not None
    try:
        said: list[str] = []
        while not (said and said[-1].startswith("QTG is up")):
            line = up.stdout.readline()
            assert line, "".join(said)
            said.append(line)
        address = said[-1].split()[3]
        question = {
            "query": "{ locationStatusesOrError { ... on WorkspaceLocationStatusEntries { entries { name } } } }"
        }
        reply = httpx.post(f"{address}/graphql", json=question, trust_env=False, timeout=60).json()
        assert reply["data"]["locationStatusesOrError"]["entries"] == [{"name": "qtg"}]
        running = load(home)
        assert running is not None
        assert [each.name for each in running.processes] == ["code-server", "webserver", "daemon"]
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT to_regclass('dagster.event_logs') IS NOT NULL").fetchone() == (True,)
            found = connection.execute("SELECT scope, opened_by FROM qtg.breakers WHERE closed_at IS NULL").fetchall()
            assert found == [("network:sandbox", "startup")]
        down = qtg(home, "down")
        assert down.communicate()[0].endswith("nothing runs any more\n")
        assert up.wait() == 0
    finally:
        up.kill()
        up.wait()
        up.stdout.close()
        qtg(home, "down").communicate()
    assert not any(started_at(each.pid) for each in running.processes)
    assert not server.is_alive()


def test_dagster_gets_the_projects_settings_and_one_code_server(home: Path) -> None:
    workspace = prepare_dagster_home(home, 4321)
    server = {"host": "127.0.0.1", "port": 4321, "location_name": "qtg"}
    assert yaml.safe_load(workspace.read_text()) == {"load_from": [{"grpc_server": server}]}
    assert yaml.safe_load((home / "dagster" / "dagster.yaml").read_text())["telemetry"] == {"enabled": False}


def test_the_shared_environment_names_the_inventory_once_there_is_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MG_INVENTORY_FILE", raising=False)
    urls = DatabaseUrls(*(f"postgresql://{field.name}@h/d" for field in fields(DatabaseUrls)))
    assert "MG_INVENTORY_FILE" not in shared_environment(home, urls)
    (home / "inventory.yaml").write_text("{}")
    shared = shared_environment(home, urls)
    assert shared["MG_INVENTORY_FILE"] == str(home / "inventory.yaml")
    assert shared["DATABASE_URL"] == urls.app
    for part in ("signer", "sender", "retention"):
        assert shared[f"MG_{part.upper()}_DATABASE_URL"] == getattr(urls, part)
    assert shared["QTG_DAGSTER_DATABASE_URL"] == dagster_url(urls.dagster)


def test_the_embedded_servers_own_url_counts_as_embedded(home: Path) -> None:
    """After `eval "$(qtg env)"` DATABASE_URL names our own server, which must still be started."""
    server = EmbeddedPostgres(home)

    def stack(url: str) -> Stack:
        return Stack(home, Settings(database_url=url), lambda _line: None)

    assert stack("")._embedded() is not None
    assert stack(server.url)._embedded() is not None
    assert stack(server.url_of(APP))._embedded() is not None
    assert stack("postgresql://elsewhere/d")._embedded() is None
