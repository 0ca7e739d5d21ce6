"""`qtg retention`: what could go, one pass, and what stayed of a movement."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli

CYCLES = (
    "INSERT INTO qtg.cycles SELECT 'w', 'sandbox', d::text, now() - interval '31 days' FROM generate_series(1, 3) d"
)
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def _at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(CYCLES)


def qtg(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), ["retention", *words])


def left(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM qtg.cycles").fetchone()
    assert row is not None
    return int(row[0])


def line(result: Result, kind: str) -> list[str]:
    [found] = [each.split() for each in result.output.splitlines() if each.startswith(kind + " ")]
    return found


@pytest.mark.parametrize("words", [("status",), ("run", "--dry-run")])
def test_looking_deletes_nothing(database_url: str, words: tuple[str, ...]) -> None:
    result = qtg(*words)
    assert result.exit_code == 0, result.output
    assert line(result, "cycles")[:5] == ["cycles", "30", "d", "0", "3"]
    assert "no table" in result.output  # Dagster's own
    assert left(database_url) == 3


def test_a_pass_deletes_and_says_what(database_url: str) -> None:
    result = qtg("run")
    assert result.exit_code == 0, result.output
    assert line(result, "cycles")[:6] == ["cycles", "30", "d", "3", "0", "0"]
    assert left(database_url) == 0


def test_what_is_kept_by_the_settings_stays(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MG_RETENTION_WINDOWS", "cycles=keep")
    result = qtg("run")
    assert line(result, "cycles")[:4] == ["cycles", "for", "good", "0"]
    assert left(database_url) == 3


def test_nothing_is_made_up_of_a_movement_that_was_never_deleted() -> None:
    result = qtg("show", NOBODY)
    assert result.exit_code == 1
    assert f"nothing was deleted of a movement '{NOBODY}'" in result.output
