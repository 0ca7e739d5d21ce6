"""What the kit found out about each clause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qtg_dagster.executors.conformance.clauses import Clause


class Verdict(StrEnum):
    """How a clause came out."""

    PASSED = "passed"
    BROKEN = "broken"
    NOT_JUDGED = "not judged"  # the bench cannot bring about what it takes
    EXEMPT = "exempt"  # by what is declared, there is nothing to judge


class Broken(Exception):
    """The executor breaks the clause; the message is what was seen."""


class NotJudged(Exception):
    """The clause cannot be judged on this bench; the message says what is missing."""


class Exempt(Exception):
    """The clause has no subject in this executor; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One clause's outcome; `seen` is what it rests on."""

    clause: Clause
    verdict: Verdict
    seen: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """All findings about one executor."""

    subject: str
    findings: tuple[Finding, ...]

    def having(self, verdict: Verdict) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict is verdict)

    def holds(self, *, allow_unjudged: bool = False) -> bool:
        """Whether the executor may be called right: nothing broken, something passed, nothing left unjudged."""
        if self.having(Verdict.BROKEN) or not self.having(Verdict.PASSED):
            return False
        return allow_unjudged or not self.having(Verdict.NOT_JUDGED)
