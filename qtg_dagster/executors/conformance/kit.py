"""Judging an executor clause by clause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.executors.conformance.bench import Bench
from qtg_dagster.executors.conformance.case import Limits
from qtg_dagster.executors.conformance.checks import CHECKS
from qtg_dagster.executors.conformance.clauses import Clause
from qtg_dagster.executors.conformance.stage import Stage
from qtg_dagster.executors.conformance.verdicts import Broken, Exempt, Finding, NotJudged, Report, Verdict


async def verify_executor(
    subject: str,
    bench: Bench,
    *,
    limits: Limits | None = None,
    clauses: Iterable[Clause] = Clause,
    tell: Callable[[Finding], None] = lambda _: None,
) -> Report:
    """Judge every clause on its own work orders. What the bench itself raises is raised: it judges nothing."""
    stage = Stage(bench, limits or Limits())
    findings: list[Finding] = []
    for clause in clauses:
        finding = await _judge(clause, stage)
        findings.append(finding)
        tell(finding)
    return Report(subject, tuple(findings))


async def _judge(clause: Clause, stage: Stage) -> Finding:
    started = time.monotonic()
    try:
        verdict, seen = Verdict.PASSED, await CHECKS[clause](stage)
    except Broken as broken:
        verdict, seen = Verdict.BROKEN, str(broken)
    except NotJudged as lacking:
        verdict, seen = Verdict.NOT_JUDGED, str(lacking)
    except Exempt as without:
        verdict, seen = Verdict.EXEMPT, str(without)
    finally:
        await stage.bench.calm()
    return Finding(clause, verdict, redact_text(seen), time.monotonic() - started)
