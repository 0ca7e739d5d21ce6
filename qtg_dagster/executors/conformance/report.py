"""Findings as a table for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from qtg_dagster.executors.conformance.clauses import CLAUSES
from qtg_dagster.executors.conformance.verdicts import Finding, Report, Verdict

_STYLES = {
    Verdict.PASSED: "green",
    Verdict.BROKEN: "bold red",
    Verdict.NOT_JUDGED: "yellow",
    Verdict.EXEMPT: "dim",
}


def print_report(report: Report, console: Console) -> None:
    """One row a clause with what was seen; for one that is broken, also why it matters; then the sums."""
    table = Table(
        "clause", "verdict", "what was seen", title=f"Executor contract: {report.subject}", title_justify="left"
    )
    for finding in report.findings:
        clause = Text(f"{finding.clause}\n").append(CLAUSES[finding.clause].statement, style="dim")
        table.add_row(clause, Text(finding.verdict, style=_STYLES[finding.verdict]), _seen(finding), end_section=True)
    console.print(table)
    console.print(summary(report))


def summary(report: Report) -> str:
    """How many clauses came out how."""
    counts = ", ".join(f"{len(report.having(verdict))} {verdict}" for verdict in Verdict)
    return f"{report.subject}: {counts}"


def _seen(finding: Finding) -> Text:
    seen = Text(finding.seen)
    if finding.verdict is Verdict.BROKEN:
        seen.append(f"\nwhy it matters: {CLAUSES[finding.clause].why}", style="dim")
    return seen
