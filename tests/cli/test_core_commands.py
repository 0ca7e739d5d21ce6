"""`qtg core` and `qtg workers` on a real database."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from qtg_dagster import cli


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_CORE_DEATHS_BEFORE_HALT", "1")


def lose_a_drain(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO qtg.runners (kind, network_class, host, pid) VALUES ('recover', 'sandbox', 'here', 1)"
        )


def test_a_halt_is_shown_and_ended_by_the_command_that_is_named(database_url: str) -> None:
    run = CliRunner().invoke
    assert run(cli.build(), ["core", "status"]).exit_code == 0
    lose_a_drain(database_url)
    halted = run(cli.build(), ["core", "status"])
    assert halted.exit_code == 1
    assert "node_recovery died" in halted.output
    listed = run(cli.build(), ["workers"])
    assert listed.exit_code == 1
    assert [line.split()[3:5] for line in listed.output.splitlines() if line.startswith("node_recovery")] == [
        ["s", "halted,"]
    ]
    assert run(cli.build(), ["core", "resume", "--by", "grace", "--reason", "the disk was full"]).exit_code == 0
    status = run(cli.build(), ["core", "status"])
    assert status.exit_code == 0
    assert "by grace the disk was full" in status.output
    assert run(cli.build(), ["workers"]).exit_code == 0, "nobody has run yet, which is no alarm"
