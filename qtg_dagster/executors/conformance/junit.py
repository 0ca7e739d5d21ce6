"""Findings as JUnit XML, for whatever shows test results."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from qtg_dagster.executors.conformance.clauses import CLAUSES
from qtg_dagster.executors.conformance.verdicts import Finding, Report, Verdict

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: Report, file: Path, *, allow_unjudged: bool = False) -> None:
    """One test case a clause: broken is a failure, not judged an error or, where that is allowed, skipped."""
    suite = ET.Element(
        "testsuite",
        name=_text(f"executor contract: {report.subject}"),
        tests=str(len(report.findings)),
        failures=str(len(report.having(Verdict.BROKEN))),
        errors=str(0 if allow_unjudged else len(report.having(Verdict.NOT_JUDGED))),
        skipped=str(sum(_tag(finding, allow_unjudged) == "skipped" for finding in report.findings)),
        time=f"{sum(finding.seconds for finding in report.findings):.3f}",
    )
    for finding in report.findings:
        _add(suite, report.subject, finding, allow_unjudged)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    ET.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _add(suite: ET.Element, subject: str, finding: Finding, allow_unjudged: bool) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=_text(subject), name=str(finding.clause), time=f"{finding.seconds:.3f}"
    )
    seen, tag = _text(finding.seen), _tag(finding, allow_unjudged)
    if tag is None:
        ET.SubElement(case, "system-out").text = seen
        return
    wording = CLAUSES[finding.clause]
    ET.SubElement(case, tag, message=seen).text = _text(f"{wording.statement}\n{wording.why}\n{finding.seen}")


def _tag(finding: Finding, allow_unjudged: bool) -> str | None:
    if finding.verdict is Verdict.NOT_JUDGED:
        return "skipped" if allow_unjudged else "error"
    return {Verdict.BROKEN: "failure", Verdict.EXEMPT: "skipped"}.get(finding.verdict)


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
