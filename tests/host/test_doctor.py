"""`qtg doctor`: each check a line, none hides another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from qtg_dagster.host import doctor
from qtg_dagster.host.findings import Finding
from qtg_dagster.host.machine_checks import database, migrations, state_folder
from qtg_dagster.settings import Settings


def names(findings: Iterator[Finding], *, ok: bool) -> list[str]:
    return [finding.name for finding in findings if finding.ok is ok]


@pytest.fixture
def alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an empty state folder and nothing set."""
    monkeypatch.setenv("QTG_HOME", str(home))
    for variable in ("DATABASE_URL", "MG_INVENTORY_FILE"):
        monkeypatch.delenv(variable, raising=False)


def test_a_line_tells_what_to_do_only_when_something_is_wrong() -> None:
    assert Finding("disk", True, "9 GB\nfree", "free some").line() == "ok   disk — 9 GB free"
    assert Finding("disk", False, "0 GB free", "free some").line() == "FAIL disk — 0 GB free — free some"


@pytest.mark.usefixtures("alone")
def test_a_wrong_setting_is_named_and_ends_the_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MG_APPROVAL_TTL_SECONDS", "soon")
    (finding,) = doctor.examine()
    assert not finding.ok
    assert "MG_APPROVAL_TTL_SECONDS" in finding.detail


@pytest.mark.usefixtures("alone")
def test_without_a_database_the_way_out_is_named() -> None:
    findings = list(doctor.examine())
    assert names(iter(findings), ok=False) == ["database"]
    assert "qtg up" in findings[-1].line()


@pytest.mark.usefixtures("alone")
def test_a_migrated_database_passes_and_missing_executors_fail(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    findings = list(doctor.examine())
    assert {"database", "direct connection", "migrations"} <= set(names(iter(findings), ok=True))
    assert "dagster storage" in names(iter(findings), ok=False)


def test_pending_migrations_are_counted_as_unfit(empty_database_url: str) -> None:
    (finding,) = migrations(Settings(database_url=empty_database_url))
    assert not finding.ok
    assert "pending" in finding.detail


def test_a_check_that_breaks_is_a_finding_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_settings: Settings) -> Iterator[Finding]:
        raise psycopg.OperationalError("no route")
        yield

    findings = list(doctor._run((broken, state_folder), Settings()))
    assert [finding.name for finding in findings] == ["broken", "state folder"]
    assert "no route" in findings[0].detail


def test_an_unreachable_database_is_a_finding() -> None:
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    (finding,) = doctor._run((database,), settings)
    assert not finding.ok
    assert "127.0.0.1" in finding.detail
