"""`qtg breaker` on a real database."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli

ALL = "network:sandbox"


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))


def breaker(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), ["breaker", *words])


def test_a_breaker_goes_through_its_life_by_commands(database_url: str) -> None:
    assert breaker("list").output == "no breaker is open\n"
    opened = breaker("open", ALL, "--by", "grace", "--reason", "venue down")
    assert opened.exit_code == 0
    assert opened.output.startswith(f"{ALL} open since ")
    assert "by grace: venue down; holds back 0 nodes" in opened.output
    assert breaker("list").output == opened.output
    assert "at 6 a minute" in breaker("release", ALL, "--by", "ada", "--per-minute", "6").output
    assert "is closed; it was open since" in breaker("close", ALL, "--by", "ada", "--reason", "it is back").output
    assert breaker("list").output == "no breaker is open\n"
    with psycopg.connect(database_url) as connection:
        trail = connection.execute("SELECT action, actor FROM qtg.audit_outbox ORDER BY id").fetchall()
    assert trail == [("open_breaker", "grace"), ("release_breaker", "ada"), ("close_breaker", "ada")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("open", "lane:moon", "--by", "grace", "--reason", "x"), "Use one of network:sandbox"),
        (("close", ALL, "--by", "ada"), "open are: none"),
        (("release", ALL, "--by", "ada", "--per-minute", "0"), "--per-minute"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    refused = breaker(*words)
    assert refused.exit_code != 0
    assert said in refused.output
