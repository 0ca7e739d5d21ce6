"""The command line as a whole: quick, found by itself, and clear when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from qtg_dagster import cli

HEAVY = ("dagster", "sqlalchemy", "psycopg", "web3", "ccxt", "pandas", "alembic", "grpc", "aiohttp")


def qtg(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "qtg_dagster", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_module_of_the_package_is_reachable() -> None:
    assert {"up", "down", "doctor", "env", "migrate", "test"} <= set(cli.build().commands)


def test_a_groups_own_commands_do_not_appear_beside_it() -> None:
    commands = cli.build().commands
    assert "movement" in commands
    assert "approve" not in commands


def test_help_loads_nothing_heavy() -> None:
    program = f"import sys; from qtg_dagster.cli import build; build(); print([m for m in {HEAVY} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_an_error_raised_on_purpose_is_one_message(tmp_path: Path) -> None:
    done = qtg("env", QTG_HOME=str(tmp_path), DATABASE_URL="")
    assert done.returncode == 2
    assert done.stderr.startswith("qtg: no database")
    assert "Traceback" not in done.stderr


def test_env_prints_what_a_shell_can_evaluate(tmp_path: Path) -> None:
    url = "postgresql://u:p%20w@h/d?options=-cjit%3Doff"
    lines = qtg("env", QTG_HOME=str(tmp_path / "a home"), DATABASE_URL=url).stdout
    script = f'{lines}\nprintf "%s|%s" "$DATABASE_URL" "$DAGSTER_HOME"'
    shown = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True).stdout
    assert shown == f"{url}|{tmp_path / 'a home' / 'dagster'}"


def test_down_with_nothing_running_is_fine(tmp_path: Path) -> None:
    done = qtg("down", QTG_HOME=str(tmp_path / "none"))
    assert done.returncode == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("failing", "code"), [("", 0), ("mypy", 1), ("pytest", 1)])
def test_the_gate_runs_everything_pytest_last_and_fails_with_any(
    monkeypatch: pytest.MonkeyPatch, failing: str, code: int
) -> None:
    ran: list[str] = []

    def pretend(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(" ".join(command))
        return subprocess.CompletedProcess(
            command, int(bool(failing) and failing in command[0] + " ".join(command[1:3]))
        )

    monkeypatch.setattr(subprocess, "run", pretend)
    result = CliRunner().invoke(cli.build(), ["test", "-k", "one"])
    assert result.exit_code == code
    assert len(ran) == 5
    assert ran[-1].endswith("-m pytest -k one")
