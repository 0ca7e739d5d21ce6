"""The command: its table, its XML and its exit code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from qtg_dagster.cli import build
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.executors.conformance import Clause, Finding, Report, Verdict
from qtg_dagster.executors.conformance.junit import write_junit
from qtg_dagster.executors.conformance.report import print_report, summary
from tests.executors.conformance.memory import SECRET
from tests.executors.conformance.service import KEY, SHARED, hosted
from tests.executors.conformance.wrong_looking import NeverFinds

_BENCH = "tests.executors.conformance.memory:open_memory_bench"
_ALL = Report(
    "exec.some.thing",
    (
        Finding(Clause.PREPARE_HASH, Verdict.PASSED, "seen \x00", 0.1),
        Finding(Clause.SUBMIT_ONCE, Verdict.BROKEN, "two [red]effects[/red]", 0.2),
        Finding(Clause.LOOK_ODD_STATUS, Verdict.NOT_JUDGED, "no knob", 0.0),
        Finding(Clause.SESSION_NONE, Verdict.EXEMPT, "asks for one", 0.0),
    ),
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["executor", "verify", *arguments])


def test_the_table_tells_every_verdict_and_why_a_breach_matters() -> None:
    console = Console(width=150, record=True)
    with console.capture() as printed:
        print_report(_ALL, console)
    text = printed.get()
    assert "two [red]effects[/red]" in text, "what was seen is no markup"
    assert "why it matters: a request repeated below submit pays twice" in text
    assert summary(_ALL) == "exec.some.thing: 1 passed, 1 broken, 1 not judged, 1 exempt"
    assert summary(_ALL) in text


@pytest.mark.parametrize(("allowed", "errors", "skipped"), [(False, "1", "1"), (True, "0", "2")])
def test_the_xml_has_a_case_for_every_clause(allowed: bool, errors: str, skipped: str, tmp_path: Path) -> None:
    write_junit(_ALL, tmp_path / "found.xml", allow_unjudged=allowed)
    (suite,) = ET.parse(tmp_path / "found.xml").getroot()  # noqa: S314 - our own file
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "4", "failures": "1", "errors": errors, "skipped": skipped}
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases["submit.once"] == ["failure"]
    assert cases["prepare.hash"] == ["system-out"]
    assert cases["look.odd-status"] == ["skipped" if allowed else "error"]


async def test_a_right_service_passes_and_a_wrong_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFY_SHARED", SHARED)
    monkeypatch.setenv("VERIFY_CANARY", SECRET)
    known = ["--key", KEY, "--secret-env", "VERIFY_SHARED", "--canary-env", "VERIFY_CANARY"]
    async with hosted(tmp_path) as at:
        order = ["--context", str(at.context_file), "--junit", str(tmp_path / "right.xml")]
        right = await asyncio.to_thread(run, at.url, *known, *order, "--book", at.book_url)
        unjudged = await asyncio.to_thread(run, at.url, *known, *order[:2], "--clause", "submit.once")
    assert right.exit_code == 0, right.output
    assert f"{len(Clause)} passed, 0 broken" in right.output
    assert ET.parse(tmp_path / "right.xml").getroot()[0].get("failures") == "0"  # noqa: S314 - our own file
    assert unjudged.exit_code == 1, "without a book the effects are not judged"
    async with hosted(tmp_path, NeverFinds) as at:
        wrong = await asyncio.to_thread(
            run, at.url, *known, *order[:2], "--book", at.book_url, "--clause", "recover.finds"
        )
    assert wrong.exit_code == 1
    assert "1 broken" in wrong.output
    assert "recover.finds" in wrong.output


def test_a_url_alone_is_not_enough() -> None:
    refused = run("http://127.0.0.1:1")
    assert isinstance(refused.exception, InvalidInput)
    assert "--secret-env" in str(refused.exception)


@pytest.mark.parametrize("name", ["nowhere", "tests.executors.conformance.memory:SECRET", "no.such.module:bench"])
def test_a_bench_that_cannot_be_opened_is_refused(name: str) -> None:
    refused = run("exec.memory.act", "--bench", name)
    assert isinstance(refused.exception, InvalidInput)
    assert refused.exception.field == "bench"


def test_a_clause_that_does_not_exist_is_refused() -> None:
    refused = run("exec.memory.act", "--bench", _BENCH, "--clause", "submit.twice")
    assert isinstance(refused.exception, InvalidInput)
    assert "submit.once" in refused.exception.fix


def test_a_key_is_judged_on_a_bench_of_ones_own() -> None:
    found = run("exec.memory.act", "--bench", _BENCH)
    assert found.exit_code == 0, found.output


def test_a_key_that_ships_needs_no_bench() -> None:
    found = run("exec.cex.deposit_observe", "--clause", "look.odd-status")
    assert found.exit_code == 0, found.output
    assert "UNLISTED_STATUS" in found.output
